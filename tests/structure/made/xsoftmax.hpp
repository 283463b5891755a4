#ifndef XSOFTMAX_HPP
#define XSOFTMAX_HPP

#include <xsoftmax.h>

namespace xsoftmax {
inline namespace v0_1 {

template <class T> class span {
public:
    std::size_t size() const
    {
        return size_;
    }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace v0_1
} // namespace xsoftmax

#endif
