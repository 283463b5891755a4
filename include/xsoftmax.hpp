/* SPDX-License-Identifier: MIT */
/**
 * @file xsoftmax.hpp
 * @brief The library from C++17: owning handles, errors as exceptions or results, spans, callables. Header only.
 *
 * The classes call the C functions of the same names, whose comments say what they do; get() gives the C object for
 * what is not here. The guide has a page on it: doc/guide/cpp.md.
 *
 * **Errors.** A call throws #xsoftmax::error. With the template argument #xsoftmax::as_result it returns a
 * #xsoftmax::result instead: `model.save<xsoftmax::as_result>(path)`. Without exceptions (-fno-exceptions) only this
 * form compiles. Memory for C++ containers is asked for in the C++ way.
 *
 * **Callbacks** may throw. The exception passes no function of the library: it is kept, ends the library's call as a
 * cancellation or a failure would, and leaves the C++ call that is under way once the library has returned, in either
 * form. (What a log function throws ends a call only where it next checks for a cancellation.) If the program called
 * the C function itself, or the header of another release, the call returns the status, and the exception is dropped.
 * Destructors of callables, owners and memory resources, and deallocate() of the latter, must not throw.
 *
 * **Lifetime.** An object owns one reference to its C object, and nothing else: it may be destroyed before what was
 * made from it, also by C functions. What a context was given (callables, the adapter of a memory resource) belongs to
 * the C context, which destroys it after its last object (xsm_context_options::release), on the thread that releases
 * that. So what callables refer to must live as long, and a library that makes contexts must stay loaded. Objects can
 * be moved; one that was moved from is empty, and its get() is nullptr.
 *
 * **Threads.** Functions of a const object may be called by several threads at once; the comments of the C headers say
 * what else may not be used during a call (a model while it is trained). An object can be destroyed by any thread, also
 * while others use what was made from it.
 *
 * **After fork()** each process has all objects, callables and owners of rows, and destroys its own. A destructor that
 * does something outside of the process's memory (removes a file, say) does it in each. A context with a pool of the
 * program cannot be used in the child, where the pool has no threads.
 *
 * **Promise.** The header uses core functions, and includes the headers of the core that xsoftmax.h leaves out. Members
 * that use functions of ext/ name its header, such as "(ext/estimator.h)": only programs that call them depend on the
 * promise of ext/. Everything is in an inline namespace of the release, such as v0_1: libraries that were compiled with
 * headers of different releases can be parts of one process.
 */
#ifndef XSOFTMAX_HPP
#define XSOFTMAX_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "xsoftmax.hpp needs C++17"
#endif

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

#include <xsoftmax.h>
#include <xsoftmax/calibrate.h>
#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/draw.h>
#include <xsoftmax/encoder.h>
#include <xsoftmax/filter.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/search.h>
#include <xsoftmax/buffer.h>
#include <xsoftmax/tensors.h>
#include <xsoftmax/stored_weights.h>

#if defined(__cpp_exceptions)
#define XSOFTMAX_EXCEPTIONS 1 /**< 1 if errors can be thrown. */
#else
#define XSOFTMAX_EXCEPTIONS 0
#endif

/** @cond */
/* The classes of two minor releases may differ, and those of a program without exceptions do. With names of their own,
 * the linker takes none for another. */
#if XSOFTMAX_EXCEPTIONS
#define XSOFTMAX_NAME_(major, minor) v##major##_##minor
#else
#define XSOFTMAX_NAME_(major, minor) v##major##_##minor##_no_exceptions
#endif
#define XSOFTMAX_JOIN_(major, minor) XSOFTMAX_NAME_(major, minor)
#define XSOFTMAX_RELEASE XSOFTMAX_JOIN_(XSM_VERSION_MAJOR, XSM_VERSION_MINOR)
/** @endcond */

namespace xsoftmax
{
/** The release whose header this is. */
inline namespace XSOFTMAX_RELEASE
{

/** A view of `size()` elements that it does not own: of a std::vector, std::array, std::span, array, or of a pointer
 *  and a size. */
template <class T> class span
{
  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N)
    {
    }
    /** Any container of T with data() and size(). A temporary one only serves the call that it is an argument of. */
    template <class C, class Pointer = decltype(std::data(std::declval<C &>())),
              class = std::enable_if_t<std::is_convertible_v<std::remove_pointer_t<Pointer> (*)[], T (*)[]> &&
                                       !std::is_array_v<std::remove_reference_t<C>>>,
              class = std::enable_if_t<std::is_lvalue_reference_v<C> || std::is_const_v<T>>>
    constexpr span(C &&container) : data_(std::data(container)), size_(std::size(container))
    {
    }
    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }
    constexpr bool empty() const noexcept
    {
        return size_ == 0;
    }
    constexpr T *begin() const noexcept
    {
        return data_;
    }
    constexpr T *end() const noexcept
    {
        return data_ + size_;
    }
    constexpr T &operator[](std::size_t i) const noexcept
    {
        return data_[i];
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/** @cond */
namespace detail
{
template <class C> struct is_list : std::false_type {
};
template <class T> struct is_list<std::initializer_list<T>> : std::true_type {
};
/** Whether an argument is a temporary container that owns its elements: they are const where the container is. */
template <class C, class = void> struct is_owner : std::false_type {
};
template <class C>
struct is_owner<C, std::void_t<decltype(std::data(std::declval<std::remove_reference_t<C> &>()))>>
    : std::bool_constant<
          !std::is_lvalue_reference_v<C> &&
          (is_list<std::remove_cv_t<C>>::value ||
           !std::is_same_v<decltype(std::data(std::declval<std::remove_cv_t<std::remove_reference_t<C>> &>())),
                           decltype(std::data(std::declval<const std::remove_reference_t<C> &>()))>)> {
};
template <class C> constexpr bool is_owner_v = is_owner<C>::value;
} // namespace detail
/** @endcond */

/** Text that ends in a zero, for the time of a call: of a literal, a char pointer or a std::string. */
class cstring
{
  public:
    cstring(const char *text) noexcept : text_(text)
    {
    }
    cstring(const std::string &text) noexcept : text_(text.c_str())
    {
    }
    const char *c_str() const noexcept
    {
        return text_;
    }

  private:
    const char *text_;
};

#if XSOFTMAX_EXCEPTIONS
/** A call failed: what() is the library's message. */
class error : public std::runtime_error
{
  public:
    explicit error(const xsm_error &from)
        : std::runtime_error(from.message), status_(from.status), line_(from.line), column_(from.column)
    {
    }
    /** The status, such as #XSM_ERROR_FORMAT; #XSM_CANCELLED if a callback ended the call. */
    xsm_status status() const noexcept
    {
        return status_;
    }
    /** Line of the file, from 1; 0 = none. */
    std::uint64_t line() const noexcept
    {
        return line_;
    }
    /** Column in bytes, from 1; 0 = none. */
    std::uint64_t column() const noexcept
    {
        return column_;
    }

  private:
    xsm_status status_;
    std::uint64_t line_;
    std::uint64_t column_;
};
#endif

/** What a call returns with #as_result: a value, or the error. */
template <class T> class [[nodiscard]] result
{
  public:
    explicit result(T &&value) : value_(std::move(value))
    {
    }
    explicit result(const xsm_error &failure) : error_(failure)
    {
    }
    /** True if there is a value. */
    explicit operator bool() const noexcept
    {
        return value_.has_value();
    }
    /** The value, which must be there. */
    T &operator*() &noexcept
    {
        return *value_;
    }
    const T &operator*() const &noexcept
    {
        return *value_;
    }
    T &&operator*() &&noexcept
    {
        return std::move(*value_);
    }
    T *operator->() noexcept
    {
        return &*value_;
    }
    const T *operator->() const noexcept
    {
        return &*value_;
    }
    /** The error: its status is #XSM_OK if there is a value. */
    const xsm_error &error() const noexcept
    {
        return error_;
    }

  private:
    std::optional<T> value_;
    xsm_error error_ = XSM_ERROR_INIT;
};

/** What a call without a value returns with #as_result. */
template <> class [[nodiscard]] result<void>
{
  public:
    result() = default;
    explicit result(const xsm_error &failure) : error_(failure)
    {
    }
    /** True if the call succeeded. */
    explicit operator bool() const noexcept
    {
        return error_.status == XSM_OK;
    }
    /** The error: its status is #XSM_OK if the call succeeded. */
    const xsm_error &error() const noexcept
    {
        return error_;
    }

  private:
    xsm_error error_ = XSM_ERROR_INIT;
};

/** Form of a call that throws #error; the default. */
struct throwing {
    template <class T> using type = T;
    template <class T> static T success(T &&value)
    {
        return std::move(value);
    }
    static void success()
    {
    }
    template <class T> static T failure(const xsm_error &from)
    {
#if XSOFTMAX_EXCEPTIONS
        throw xsoftmax::error(from);
#else
        (void)from;
        static_assert(sizeof(T *) == 0, "without exceptions, calls need the template argument xsoftmax::as_result");
#endif
    }
};

/** Form of a call that returns a #result. */
struct as_result {
    template <class T> using type = result<T>;
    template <class T> static result<T> success(T &&value)
    {
        return result<T>(std::move(value));
    }
    static result<void> success()
    {
        return result<void>();
    }
    template <class T> static result<T> failure(const xsm_error &from)
    {
        return result<T>(from);
    }
};

/** What a call returns: T, or result<T>. */
template <class How, class T> using outcome = typename How::template type<T>;

/** What a progress callback asks for; a callback that returns nothing asks to go on. */
enum class flow { go_on, cancel };

/** @cond */
template <class T> struct initial;
#define XSOFTMAX_INITIAL(type, value)                                                                                  \
    template <> struct initial<type> {                                                                                 \
        static type get() noexcept                                                                                     \
        {                                                                                                              \
            type made = value;                                                                                         \
            return made;                                                                                               \
        }                                                                                                              \
    }
XSOFTMAX_INITIAL(xsm_error, XSM_ERROR_INIT);
XSOFTMAX_INITIAL(xsm_allocator, XSM_ALLOCATOR_INIT);
XSOFTMAX_INITIAL(xsm_runner, XSM_RUNNER_INIT);
XSOFTMAX_INITIAL(xsm_source, XSM_SOURCE_INIT);
XSOFTMAX_INITIAL(xsm_context_options, XSM_CONTEXT_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_context_info, XSM_CONTEXT_INFO_INIT);
XSOFTMAX_INITIAL(xsm_text_options, XSM_TEXT_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_class_map, XSM_CLASS_MAP_INIT);
XSOFTMAX_INITIAL(xsm_read_options, XSM_READ_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_write_options, XSM_WRITE_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_labels, XSM_LABELS_INIT);
XSOFTMAX_INITIAL(xsm_dataset_weights, XSM_DATASET_WEIGHTS_INIT);
XSOFTMAX_INITIAL(xsm_dense_rows, XSM_DENSE_ROWS_INIT);
XSOFTMAX_INITIAL(xsm_csr_rows, XSM_CSR_ROWS_INIT);
XSOFTMAX_INITIAL(xsm_dataset_info, XSM_DATASET_INFO_INIT);
XSOFTMAX_INITIAL(xsm_row, XSM_ROW_INIT);
XSOFTMAX_INITIAL(xsm_batch, XSM_BATCH_INIT);
XSOFTMAX_INITIAL(xsm_model_options, XSM_MODEL_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_prune_options, XSM_PRUNE_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_convert_options, XSM_CONVERT_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_model_info, XSM_MODEL_INFO_INIT);
XSOFTMAX_INITIAL(xsm_embedding_options, XSM_EMBEDDING_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_embedding_parameters, XSM_EMBEDDING_PARAMETERS_INIT);
XSOFTMAX_INITIAL(xsm_embedding_view, XSM_EMBEDDING_VIEW_INIT);
XSOFTMAX_INITIAL(xsm_load_options, XSM_LOAD_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_parameters, XSM_PARAMETERS_INIT);
XSOFTMAX_INITIAL(xsm_parameters_view, XSM_PARAMETERS_VIEW_INIT);
XSOFTMAX_INITIAL(xsm_gradient_view, XSM_GRADIENT_VIEW_INIT);
XSOFTMAX_INITIAL(xsm_stream_options, XSM_STREAM_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_estimator_info, XSM_ESTIMATOR_INFO_INIT);
XSOFTMAX_INITIAL(xsm_draw, XSM_DRAW_INIT);
XSOFTMAX_INITIAL(xsm_sampler_info, XSM_SAMPLER_INFO_INIT);
XSOFTMAX_INITIAL(xsm_index_rows, XSM_INDEX_ROWS_INIT);
XSOFTMAX_INITIAL(xsm_index_search, XSM_INDEX_SEARCH_INIT);
XSOFTMAX_INITIAL(xsm_index_info, XSM_INDEX_INFO_INIT);
XSOFTMAX_INITIAL(xsm_optimizer_info, XSM_OPTIMIZER_INFO_INIT);
XSOFTMAX_INITIAL(xsm_progress, XSM_PROGRESS_INIT);
XSOFTMAX_INITIAL(xsm_trainer_options, XSM_TRAINER_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_train_options, XSM_TRAIN_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_train_report, XSM_TRAIN_REPORT_INIT);
XSOFTMAX_INITIAL(xsm_predictor_options, XSM_PREDICTOR_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_predictor_info, XSM_PREDICTOR_INFO_INIT);
XSOFTMAX_INITIAL(xsm_prediction, XSM_PREDICTION_INIT);
XSOFTMAX_INITIAL(xsm_filter_classes, XSM_FILTER_CLASSES_INIT);
XSOFTMAX_INITIAL(xsm_encoder_options, XSM_ENCODER_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_search_metrics, XSM_SEARCH_METRICS_INIT);
XSOFTMAX_INITIAL(xsm_evaluate_options, XSM_EVALUATE_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_metrics, XSM_METRICS_INIT);
XSOFTMAX_INITIAL(xsm_class_metrics_options, XSM_CLASS_METRICS_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_class_metrics, XSM_CLASS_METRICS_INIT);
XSOFTMAX_INITIAL(xsm_calibration, XSM_CALIBRATION_INIT);
XSOFTMAX_INITIAL(xsm_calibrate_options, XSM_CALIBRATE_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_calibrate_result, XSM_CALIBRATE_RESULT_INIT);
XSOFTMAX_INITIAL(xsm_fit_options, XSM_FIT_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_fit_result, XSM_FIT_RESULT_INIT);
XSOFTMAX_INITIAL(xsm_label_tree_options, XSM_LABEL_TREE_OPTIONS_INIT);
XSOFTMAX_INITIAL(xsm_label_tree_result, XSM_LABEL_TREE_RESULT_INIT);
XSOFTMAX_INITIAL(xsm_storage, XSM_STORAGE_INIT);
XSOFTMAX_INITIAL(xsm_tensor, XSM_TENSOR_INIT);
#undef XSOFTMAX_INITIAL
/** @endcond */

/** A struct of the C headers with its starting value: `auto options = xsoftmax::init<xsm_trainer_options>();` */
template <class T> T init() noexcept
{
    return initial<T>::get();
}

/** @cond */
namespace detail
{

/** A call of the library that is under way on this thread. It takes the exceptions of callbacks. */
class call
{
  public:
    call() noexcept : outer_(current())
    {
        current() = this;
    }
    ~call()
    {
        current() = outer_;
    }
    call(const call &) = delete;
    call &operator=(const call &) = delete;

    XSM_API static call *&current() noexcept
    {
        static thread_local call *here = nullptr;
        return here;
    }
    /** Rethrows what a callback threw. */
    void returned()
    {
        current() = outer_; /* the rest is not the library's */
#if XSOFTMAX_EXCEPTIONS
        if (thrown_) {
            std::rethrow_exception(thrown_);
        }
#endif
    }
    /** 1 if a callback has thrown, so that the call is to end. */
    static std::int32_t pending() noexcept
    {
#if XSOFTMAX_EXCEPTIONS
        if (call *here = current()) {
            const std::lock_guard<std::mutex> lock(here->mutex_);
            return here->thrown_ ? 1 : 0;
        }
#endif
        return 0;
    }
    /** Runs a callback. An exception is kept for the call, the first if there are several, and makes 1 of it. */
    template <class F> static std::int32_t guard(F &&run) noexcept
    {
#if XSOFTMAX_EXCEPTIONS
        try {
            return run();
        } catch (...) {
            if (call *here = current()) {
                const std::lock_guard<std::mutex> lock(here->mutex_);
                if (!here->thrown_) {
                    here->thrown_ = std::current_exception();
                }
            }
            return 1;
        }
#else
        return run();
#endif
    }

  private:
    call *outer_;
#if XSOFTMAX_EXCEPTIONS
    std::mutex mutex_;
    std::exception_ptr thrown_;
#endif
};

/** Calls a function of the library that gives nothing. */
template <class How, class F> outcome<How, void> invoke(F &&function)
{
    xsm_error err = XSM_ERROR_INIT;
    call here;
    err.status = function(&err);
    here.returned();
    return err.status == XSM_OK ? How::success() : How::template failure<void>(err);
}

/** Calls a function of the library that fills a value. */
template <class How, class T, class F> outcome<How, T> fill(T value, F &&function)
{
    xsm_error err = XSM_ERROR_INIT;
    call here;
    err.status = function(&value, &err);
    here.returned();
    if (err.status != XSM_OK) {
        return How::template failure<T>(err);
    }
    return How::success(std::move(value));
}

/** What an object's get_info() fills; the starting value of no object. */
template <class Info, class Get, class T> Info about(Get &&get, const T *object) noexcept
{
    auto info = init<Info>();
    (void)get(object, &info, nullptr);
    return info;
}

/** Fails before the library is called: a span has another size than it must have. */
inline xsm_status wrong_size(xsm_error *err, const char *what, std::size_t size, std::size_t needed, const char *why)
{
    std::snprintf(err->message, sizeof(err->message), "%s has %zu entries, but must have %zu: %s", what, size, needed,
                  why);
    err->status = XSM_ERROR_SHAPE;
    return err->status;
}

inline xsm_status refuse(xsm_error *err, xsm_status status, const char *message)
{
    std::snprintf(err->message, sizeof(err->message), "%s", message);
    err->status = status;
    return status;
}

/** a * b, or the largest number if that is too large for any array. */
inline std::size_t product(std::uint64_t a, std::uint64_t b) noexcept
{
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    return b != 0 && a > most / b ? most : static_cast<std::size_t>(a * b);
}

inline xsm_status check_batch_size(xsm_error *err, const char *what, std::size_t size, const xsm_batch &batch,
                                   std::uint64_t each, const char *why)
{
    const std::size_t needed = product(batch.count, each);
    return size == needed ? static_cast<xsm_status>(XSM_OK) : wrong_size(err, what, size, needed, why);
}

/** A callable that returns nothing or a flow, as one type; it may be movable only. */
template <class Argument, class F> std::function<flow(const Argument &)> as_flow(F &&f)
{
    using callable = std::decay_t<F>;
    using returned = std::invoke_result_t<callable &, const Argument &>;
    static_assert(std::is_void_v<returned> || std::is_same_v<returned, flow>,
                  "a callback of progress returns nothing, or an xsoftmax::flow");
    auto kept = std::make_shared<callable>(std::forward<F>(f));
    return [kept](const Argument &argument) {
        if constexpr (std::is_void_v<returned>) {
            (*kept)(argument);
            return flow::go_on;
        } else {
            return (*kept)(argument);
        }
    };
}

/** The C callback for such a callable, whose address is `user`. */
template <class Argument> std::int32_t show(void *user, const Argument *argument) noexcept
{
    if (call::pending()) {
        return 1;
    }
    auto &f = *static_cast<std::function<flow(const Argument &)> *>(user);
    return call::guard([&] {
        const auto running = f; /* which may destroy what owns f */
        return running(*argument) == flow::cancel ? 1 : 0;
    });
}

template <class T> struct dtype;
template <> struct dtype<float> {
    static constexpr std::int32_t value = XSM_DTYPE_FLOAT32;
};
template <> struct dtype<double> {
    static constexpr std::int32_t value = XSM_DTYPE_FLOAT64;
};

} // namespace detail
/** @endcond */

/** Owns an object of the library, or a reference to it. */
template <class T, void (*Free)(T *)> class handle
{
  public:
    handle() noexcept = default;
    /** Takes over an object of the C interface, and releases it. */
    explicit handle(T *object) noexcept : object_(object)
    {
    }
    handle(handle &&other) noexcept : object_(other.release())
    {
    }
    handle &operator=(handle &&other) noexcept
    {
        if (this != &other) {
            reset();
            object_ = other.release();
        }
        return *this;
    }
    handle(const handle &) = delete;
    handle &operator=(const handle &) = delete;
    ~handle()
    {
        reset();
    }
    /** The C object; nullptr if there is none. */
    T *get() const noexcept
    {
        return object_;
    }
    explicit operator bool() const noexcept
    {
        return object_ != nullptr;
    }
    /** Releases the object. */
    void reset() noexcept
    {
        if (object_) {
            Free(std::exchange(object_, nullptr));
        }
    }
    /** Gives the C object, or nullptr, to the caller, who releases it with the C function. */
    T *release() noexcept
    {
        return std::exchange(object_, nullptr);
    }

  private:
    T *object_ = nullptr;
};

/** @cond */
namespace detail
{
template <class T, void (*Free)(T *)> T *object_type(const handle<T, Free> &);

/** Calls a constructor of the library. */
template <class How, class Class, class F> outcome<How, Class> make(F &&function)
{
    decltype(object_type(std::declval<const Class &>())) object = nullptr;
    xsm_error err = XSM_ERROR_INIT;
    call here;
    err.status = function(&object, &err);
    Class made(object);
    here.returned();
    if (err.status != XSM_OK) {
        return How::template failure<Class>(err);
    }
    return How::success(std::move(made));
}
} // namespace detail
/** @endcond */

/** A part of a parallel call, which a pool runs once for each index. Copies are cheap. */
class job
{
  public:
    /** Runs job number `index`, on any thread; never throws. */
    void operator()(std::size_t index) const noexcept;

    /** @cond */
    struct state {
        xsm_job run;
        void *argument;
        detail::call *call;
        std::mutex mutex;
        std::condition_variable freed;
        std::vector<std::uint32_t> free;
        std::size_t done;
    };
    explicit job(state *of) noexcept : state_(of)
    {
    }
    /** @endcond */

  private:
    state *state_;
};

inline void job::operator()(std::size_t index) const noexcept
{
    std::uint32_t thread = 0;
    {
        std::unique_lock<std::mutex> lock(state_->mutex);
        state_->freed.wait(lock, [this] { return !state_->free.empty(); });
        thread = state_->free.back();
        state_->free.pop_back();
    }
    detail::call *&current = detail::call::current();
    detail::call *outer = std::exchange(current, state_->call);
    state_->run(state_->argument, index, thread);
    current = outer;
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->free.push_back(thread);
    state_->done++;
    state_->freed.notify_one();
}

/** What the program provides: threads, memory, a log, a hook for progress. */
class context_options
{
  public:
    /** Number of the library's own threads; 0 = the processors of the process. */
    context_options &threads(std::uint32_t count)
    {
        options_.threads = count;
        return *this;
    }
    /** Sum of XSM_CPU_DISABLE_* values. */
    context_options &cpu_disable(std::uint32_t sets)
    {
        options_.cpu_disable = sets;
        return *this;
    }
    /** Runs parallel calls on the program's pool: `pool(job, count)` calls `job(index)` once for each index below
     *  `count`, a std::size_t, on any threads in any order, and returns when all have ended. At most `threads` jobs run
     *  at once; further ones wait. If the pool throws, no job may be running any more. Several threads may call it.
     *
     *  The context keeps the callable, but not what it refers to. A callable that owns the threads is destroyed by the
     *  thread that releases the last object of the context, which then cannot be one of them. */
    template <class Pool> context_options &pool(Pool &&pool, std::uint32_t threads)
    {
        auto kept = std::make_shared<std::decay_t<Pool>>(std::forward<Pool>(pool));
        pool_ = [kept](job each, std::size_t count) { (*kept)(each, count); };
        runner_ = {sizeof runner_, nullptr, threads, 0, &context_options::run};
        return *this;
    }
    /** Receives messages: `log(level, text)`, XSM_LOG_* and a const char *, from any thread. What it throws leaves the
     *  call that is under way. */
    template <class Log> context_options &log(Log &&log)
    {
        auto kept = std::make_shared<std::decay_t<Log>>(std::forward<Log>(log));
        log_ = [kept](std::int32_t level, const char *text) { (*kept)(level, text); };
        options_.log = &context_options::write;
        return *this;
    }
    /** Sees what long calls do: `progress(const xsm_activity &)` returns nothing, or #flow::cancel to end the call. */
    template <class Progress> context_options &progress(Progress &&progress)
    {
        progress_ = detail::as_flow<xsm_activity>(std::forward<Progress>(progress));
        options_.progress = &detail::show<xsm_activity>;
        return *this;
    }
#if defined(__cpp_lib_memory_resource)
    /** Takes memory from a resource, which must be thread-safe and outlive every object of the context. std::bad_alloc
     *  becomes #XSM_ERROR_MEMORY. deallocate() must not throw. */
    context_options &memory(std::pmr::memory_resource *resource)
    {
        return memory(std::shared_ptr<std::pmr::memory_resource>(std::shared_ptr<void>(), resource));
    }
    /** As memory(), with a resource that the context keeps for its objects. */
    context_options &memory(std::shared_ptr<std::pmr::memory_resource> resource)
    {
        allocator_ = {sizeof allocator_, resource.get(), &context_options::allocate, &context_options::release};
        resource_ = std::move(resource);
        return *this;
    }
#endif

    /** @cond */
    /** The C struct for a context that owns `own`, whose pointers are into it. */
    static xsm_context_options lend(context_options &own) noexcept
    {
        xsm_context_options all = own.options_;
        own.runner_.user = &own;
        all.allocator = own.allocator_.user ? &own.allocator_ : nullptr;
        all.runner = own.pool_ ? &own.runner_ : nullptr;
        all.log_user = &own;
        all.progress_user = &own.progress_;
        all.release = &context_options::drop;
        all.release_user = &own;
        return all;
    }
    /** @endcond */

  private:
    static void drop(void *own) noexcept
    {
        delete static_cast<context_options *>(own);
    }
    static std::int32_t run(void *user, xsm_job each, void *argument, std::size_t count) noexcept
    {
        auto &of = *static_cast<context_options *>(user);
        return detail::call::guard([&] {
            job::state state{each, argument, detail::call::current(), {}, {}, {}, 0};
            state.free.resize(of.runner_.threads);
            for (std::uint32_t i = 0; i < of.runner_.threads; i++) {
                state.free[i] = of.runner_.threads - 1 - i;
            }
            of.pool_(job(&state), count);
            const std::lock_guard<std::mutex> lock(state.mutex);
            return state.done == count ? 0 : 1;
        });
    }
    static void write(void *user, std::int32_t level, const char *text) noexcept
    {
        detail::call::guard([&] {
            static_cast<context_options *>(user)->log_(level, text);
            return 0;
        });
    }
#if defined(__cpp_lib_memory_resource)
    static void *allocate(void *user, std::size_t size, std::size_t alignment) noexcept
    {
        void *memory = nullptr;
        detail::call::guard([&] {
#if XSOFTMAX_EXCEPTIONS
            try {
                memory = static_cast<std::pmr::memory_resource *>(user)->allocate(size, alignment);
            } catch (const std::bad_alloc &) { /* the library says XSM_ERROR_MEMORY */
            }
#else
            memory = static_cast<std::pmr::memory_resource *>(user)->allocate(size, alignment);
#endif
            return 0;
        });
        return memory;
    }
    static void release(void *user, void *memory, std::size_t size, std::size_t alignment) noexcept
    {
        static_cast<std::pmr::memory_resource *>(user)->deallocate(memory, size, alignment);
    }
#endif

    std::function<void(job, std::size_t)> pool_;
    std::function<void(std::int32_t, const char *)> log_;
    std::function<flow(const xsm_activity &)> progress_;
    std::shared_ptr<void> resource_;
    xsm_context_options options_ = XSM_CONTEXT_OPTIONS_INIT;
    xsm_allocator allocator_ = XSM_ALLOCATOR_INIT;
    xsm_runner runner_ = XSM_RUNNER_INIT;
};

/** A context. An empty one, `context{}`, stands for NULL: each object gets a context of its own, with the defaults. */
class context : public handle<xsm_context, xsm_context_free>
{
  public:
    using handle::handle;
    template <class How = throwing> static outcome<How, context> make(const context_options &options = {})
    {
        return detail::make<How, context>([&](xsm_context **out, xsm_error *err) {
            auto own = std::make_unique<context_options>(options);
            const xsm_context_options all = context_options::lend(*own);
            const xsm_status status = xsm_context_new(&all, out, err);
            if (status == XSM_OK) {
                (void)own.release(); /* drop() has it */
            }
            return status;
        });
    }
    std::uint32_t threads() const noexcept
    {
        return detail::about<xsm_context_info>(xsm_context_get_info, get()).threads;
    }
    const char *instruction_set() const noexcept
    {
        return detail::about<xsm_context_info>(xsm_context_get_info, get()).instruction_set;
    }
};

/** Bytes in memory, to be loaded from. They and `name`, which messages call them by, must outlive the storage, and the
 *  bytes a model that uses them in place. */
inline xsm_storage storage_of(span<const unsigned char> bytes, const char *name = nullptr) noexcept
{
    xsm_storage storage = init<xsm_storage>();
    storage.name = name;
    storage.bytes = bytes.data();
    storage.byte_count = bytes.size();
    return storage;
}
/** A storage keeps no bytes: those of a temporary container would be gone before they are used. */
template <class C, class = std::enable_if_t<detail::is_owner_v<C>>>
void storage_of(C &&bytes, const char *name = nullptr) = delete;

/** Bytes in memory that saves fill. (buffer.h) */
class buffer : public handle<xsm_buffer, xsm_buffer_free>
{
  public:
    using handle::handle;
    /** An empty buffer. (buffer.h) */
    template <class How = throwing> static outcome<How, buffer> make(const context &in)
    {
        return detail::make<How, buffer>(
            [&](xsm_buffer **out, xsm_error *err) { return xsm_buffer_new(in.get(), out, err); });
    }
    /** Those of the last complete save, valid until the next one is complete, or the buffer is gone. (buffer.h) */
    span<const unsigned char> bytes() const noexcept
    {
        std::size_t count = 0;
        const void *bytes = xsm_buffer_bytes(get(), &count);
        return {static_cast<const unsigned char *>(bytes), count};
    }
    /** What saves into the buffer, and loads the bytes that are in it now; `name`, which messages call it by, must
     *  outlive it. (buffer.h) */
    template <class How = throwing> outcome<How, xsm_storage> storage(const char *name = nullptr)
    {
        return detail::fill<How>(init<xsm_storage>(), [&](xsm_storage *storage, xsm_error *err) {
            storage->name = name;
            return xsm_buffer_get_storage(get(), storage, err);
        });
    }
};

/** Labels of rows in memory, as classes below `classes`: one a row, or with `offsets` those of row i at
 *  [offsets[i], offsets[i+1]); with `weights`, the weight of each label. */
struct labels {
    span<const std::uint32_t> values;
    std::uint32_t classes = 0;
    span<const std::uint64_t> offsets = {};
    span<const float> weights = {};
};

/** @cond */
namespace detail
{
/** The C struct, after its sizes were compared. */
inline xsm_status check_labels(const labels &from, std::uint64_t rows, xsm_labels *to, xsm_error *err)
{
    *to = init<xsm_labels>();
    to->classes = from.classes;
    to->labels = from.values.data();
    to->offsets = from.offsets.data();
    to->weights = from.weights.empty() ? nullptr : from.weights.data();
    if (!from.weights.empty() && from.weights.size() != from.values.size()) {
        return wrong_size(err, "the weights of the labels", from.weights.size(), from.values.size(),
                          "one for each label, or none");
    }
    if (from.offsets.empty()) {
        return from.values.size() == rows ? static_cast<xsm_status>(XSM_OK)
                                          : wrong_size(err, "labels", from.values.size(), product(rows, 1),
                                                       "one for each row, as there are no offsets");
    }
    if (from.offsets.size() != rows + 1) {
        return wrong_size(err, "the offsets of the labels", from.offsets.size(), product(rows + 1, 1),
                          "one for each row, and the end");
    }
    const std::uint64_t end = from.offsets[from.offsets.size() - 1];
    return from.values.size() == end
               ? static_cast<xsm_status>(XSM_OK)
               : wrong_size(err, "labels", from.values.size(), product(end, 1), "the last of their offsets");
}

/** Compares the sizes of the arrays of sparse rows. */
inline xsm_status check_csr(span<const std::uint64_t> offsets, span<const std::uint32_t> index,
                            span<const float> values, xsm_error *err)
{
    if (offsets.empty()) {
        return wrong_size(err, "offsets", 0, 1, "one for each row, and the end");
    }
    const std::size_t end = product(offsets[offsets.size() - 1], 1);
    if (index.size() != end) {
        return wrong_size(err, "index", index.size(), end, "the last of the offsets");
    }
    return values.size() == end ? static_cast<xsm_status>(XSM_OK)
                                : wrong_size(err, "values", values.size(), end, "the last of the offsets");
}

/** What dense and sparse rows have alike: checks labels and owner, and lists the labels. */
template <class Rows>
xsm_status check_rows(const std::optional<labels> &of, const std::shared_ptr<const void> *owner, Rows *rows,
                      xsm_labels *row_labels, xsm_error *err)
{
    if (of) {
        if (check_labels(*of, rows->rows, row_labels, err) != XSM_OK) {
            return err->status;
        }
        rows->labels = row_labels;
    }
    if (owner && !*owner) {
        return refuse(err, XSM_ERROR_ARGUMENT, "rows are borrowed, but their owner is empty");
    }
    return XSM_OK;
}

/** Gives up the owner of arrays that a dataset has borrowed. */
inline void drop_owner(void *kept) noexcept
{
    delete static_cast<std::shared_ptr<const void> *>(kept);
}

/** The C function of a callable that data are read from. An exception becomes a failure, and is kept for the call. */
template <class Source> std::int64_t read_from(void *user, void *buffer, std::size_t size) noexcept
{
    std::int64_t got = -1;
    call::guard([&] {
        got = static_cast<std::int64_t>((*static_cast<Source *>(user))(buffer, size));
        return 0;
    });
    return got;
}

/** Constructs an object of memory that it keeps the owner of. */
template <class Given, class F>
xsm_status keep_owner(std::shared_ptr<const void> owner, Given &given, F &&construct, xsm_error *err)
{
    auto *kept = new (std::nothrow) std::shared_ptr<const void>(std::move(owner));
    if (!kept) {
        return refuse(err, XSM_ERROR_MEMORY, "out of memory for the owner of what is borrowed");
    }
    given.release = &drop_owner;
    given.release_user = kept;
    const xsm_status status = construct(&given);
    if (status != XSM_OK) {
        drop_owner(kept);
    }
    return status;
}

/** Makes a dataset of rows that are borrowed of an owner, or copied if there is none. */
template <class Rows, class F>
xsm_status lend(std::shared_ptr<const void> owner, Rows &rows, F &&construct, xsm_error *err)
{
    if (!owner) {
        return construct(&rows);
    }
    rows.ownership = XSM_BORROW;
    return keep_owner(std::move(owner), rows, construct, err);
}
} // namespace detail
/** @endcond */

/** A dataset. */
class dataset : public handle<xsm_dataset, xsm_dataset_free>
{
  public:
    using handle::handle;
    template <class How = throwing>
    static outcome<How, dataset> read(const context &in, cstring path,
                                      const xsm_read_options &options = init<xsm_read_options>())
    {
        return detail::make<How, dataset>([&](xsm_dataset **out, xsm_error *err) {
            return xsm_dataset_read(in.get(), path.c_str(), nullptr, &options, out, err);
        });
    }
    /** Reads from a callable: `source(void *buffer, std::size_t size)` writes at most `size` bytes to `buffer` and
     *  returns how many, an integer, which is 0 at the end and negative for a failure (#XSM_ERROR_IO). Messages have
     *  `name` in place of the path. */
    template <class How = throwing, class Source>
    static outcome<How, dataset> read_source(const context &in, Source &&source, cstring name,
                                             const xsm_read_options &options = init<xsm_read_options>())
    {
        using callable = std::remove_reference_t<Source>;
        static_assert(std::is_integral_v<std::invoke_result_t<callable &, void *, std::size_t>>,
                      "a source returns the number of bytes");
        return detail::make<How, dataset>([&](xsm_dataset **out, xsm_error *err) {
            const xsm_source from = {sizeof from, const_cast<void *>(static_cast<const void *>(std::addressof(source))),
                                     &detail::read_from<callable>};
            auto storage = init<xsm_storage>();
            storage.name = name.c_str();
            storage.source = &from;
            return xsm_dataset_read(in.get(), nullptr, &storage, &options, out, err);
        });
    }
    /** Reads names of the classes: line i of the file, from 0, is the name of the label i. */
    template <class How = throwing> outcome<How, void> read_names(cstring path)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_dataset_read_names(get(), path.c_str(), err); });
    }
    /** Copies rows of `features` numbers each, float or double, one after another. */
    template <class How = throwing>
    static outcome<How, dataset> from_dense(const context &in, span<const float> values, std::uint32_t features,
                                            const std::optional<labels> &of = std::nullopt)
    {
        return dense<How>(in, nullptr, values, features, of);
    }
    template <class How = throwing>
    static outcome<How, dataset> from_dense(const context &in, span<const double> values, std::uint32_t features,
                                            const std::optional<labels> &of = std::nullopt)
    {
        return dense<How>(in, nullptr, values, features, of);
    }
    /** Rows that have labels only, for a program whose own network makes the features (estimator::bind_labels()). */
    template <class How = throwing> static outcome<How, dataset> from_labels(const context &in, const labels &of)
    {
        return detail::make<How, dataset>([&](xsm_dataset **out, xsm_error *err) -> xsm_status {
            auto rows = init<xsm_dense_rows>();
            auto row_labels = init<xsm_labels>();
            rows.rows = of.offsets.empty() ? of.values.size() : of.offsets.size() - 1;
            if (detail::check_rows(of, nullptr, &rows, &row_labels, err) != XSM_OK) {
                return err->status;
            }
            return xsm_dataset_from_dense(in.get(), &rows, out, err);
        });
    }
    /** As from_dense(), without a copy: the dataset keeps `owner`, which is not empty, as long as it or what was made
     *  from it needs the arrays of values and labels, which must not change. The owner is given up by the thread whose
     *  call needs them last, and after fork() in each process. */
    template <class How = throwing>
    static outcome<How, dataset> borrow_dense(const context &in, std::shared_ptr<const void> owner,
                                              span<const float> values, std::uint32_t features,
                                              const std::optional<labels> &of = std::nullopt)
    {
        return dense<How>(in, &owner, values, features, of);
    }
    /** Copies sparse rows: row i has the features index[offsets[i]..offsets[i+1]) and the values there. */
    template <class How = throwing>
    static outcome<How, dataset> from_csr(const context &in, span<const std::uint64_t> offsets,
                                          span<const std::uint32_t> index, span<const float> values,
                                          std::uint32_t features, const std::optional<labels> &of = std::nullopt)
    {
        return csr<How>(in, nullptr, offsets, index, values, features, of);
    }
    /** As from_csr(), without a copy, as borrow_dense(). */
    template <class How = throwing>
    static outcome<How, dataset> borrow_csr(const context &in, std::shared_ptr<const void> owner,
                                            span<const std::uint64_t> offsets, span<const std::uint32_t> index,
                                            span<const float> values, std::uint32_t features,
                                            const std::optional<labels> &of = std::nullopt)
    {
        return csr<How>(in, &owner, offsets, index, values, features, of);
    }
    template <class How = throwing>
    outcome<How, void> write(cstring path, const xsm_write_options &options = init<xsm_write_options>()) const
    {
        return detail::invoke<How>(
            [&](xsm_error *err) { return xsm_dataset_write(get(), path.c_str(), &options, err); });
    }
    template <class How = throwing> outcome<How, xsm_dataset_info> info() const
    {
        return detail::fill<How>(init<xsm_dataset_info>(), [&](xsm_dataset_info *info, xsm_error *err) {
            return xsm_dataset_get_info(get(), info, err);
        });
    }
    /** A view, valid until the dataset changes. */
    template <class How = throwing> outcome<How, xsm_row> row(std::uint64_t index) const
    {
        return detail::fill<How>(
            init<xsm_row>(), [&](xsm_row *row, xsm_error *err) { return xsm_dataset_get_row(get(), index, row, err); });
    }
    /** A view, valid until the dataset changes. */
    template <class How = throwing> outcome<How, xsm_class_map> class_map() const
    {
        return detail::fill<How>(init<xsm_class_map>(), [&](xsm_class_map *map, xsm_error *err) {
            return xsm_dataset_get_class_map(get(), map, err);
        });
    }
    template <class How = throwing> outcome<How, void> shuffle(std::uint64_t seed)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_dataset_shuffle(get(), seed, err); });
    }
    /** Replaces the rows' weights by copies of these, one a row; an empty span takes them away.
     *  (dataset_weights.h) */
    template <class How = throwing> outcome<How, void> set_weights(span<const float> weights)
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            const auto rows = info().rows;
            if (weights.size() != 0 && weights.size() != rows) {
                return detail::wrong_size(err, "weights", weights.size(), static_cast<std::size_t>(rows),
                                          "one a row, or none");
            }
            auto given = init<xsm_dataset_weights>();
            given.rows = weights.size() != 0 ? weights.data() : nullptr;
            given.row_count = weights.size();
            return xsm_dataset_set_weights(get(), &given, err);
        });
    }
    template <class How = throwing> outcome<How, void> keep_labels(std::int32_t which)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_dataset_keep_labels(get(), which, err); });
    }
    template <class How = throwing> outcome<How, void> extend(const xsm_class_map &map)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_dataset_extend(get(), &map, err); });
    }
    /** Removes rows, and returns how many: `which` is a sum of XSM_DROP_*. */
    template <class How = throwing> outcome<How, std::uint64_t> drop(std::uint32_t which)
    {
        return detail::fill<How>(std::uint64_t{0}, [&](std::uint64_t *dropped, xsm_error *err) {
            return xsm_dataset_drop(get(), which, dropped, err);
        });
    }
    /** Removes labels that fewer rows have, but for those of `known`, and returns how many. */
    template <class How = throwing>
    outcome<How, std::uint64_t> drop_rare_labels(std::uint64_t least, const xsm_class_map *known = nullptr)
    {
        return detail::fill<How>(std::uint64_t{0}, [&](std::uint64_t *dropped, xsm_error *err) {
            return xsm_dataset_drop_rare_labels(get(), least, known, dropped, err);
        });
    }
    template <class How = throwing> outcome<How, dataset> select(span<const std::uint64_t> rows) const
    {
        return detail::make<How, dataset>([&](xsm_dataset **out, xsm_error *err) {
            return xsm_dataset_select(get(), rows.data(), rows.size(), out, err);
        });
    }
    /** A part of the rows, and the rest. */
    template <class How = throwing>
    outcome<How, std::pair<dataset, dataset>> split(double fraction, std::uint64_t seed) const
    {
        return detail::fill<How>(std::pair<dataset, dataset>(), [&](auto *parts, xsm_error *err) {
            xsm_dataset *part = nullptr, *rest = nullptr;
            const xsm_status status = xsm_dataset_split(get(), fraction, seed, &part, &rest, err);
            parts->first = dataset(part);
            parts->second = dataset(rest);
            return status;
        });
    }

  private:
    template <class How, class T>
    static outcome<How, dataset> dense(const context &in, const std::shared_ptr<const void> *owner,
                                       span<const T> values, std::uint32_t features, const std::optional<labels> &of)
    {
        return detail::make<How, dataset>([&](xsm_dataset **out, xsm_error *err) -> xsm_status {
            if (features == 0) {
                return detail::refuse(err, XSM_ERROR_SHAPE,
                                      "features is 0, but rows have at least one; from_labels() makes rows without");
            }
            if (values.size() % features != 0) {
                return detail::wrong_size(err, "values", values.size(), values.size() / features * features,
                                          "a whole number of rows");
            }
            auto rows = init<xsm_dense_rows>();
            auto row_labels = init<xsm_labels>();
            rows.values = values.data();
            rows.rows = values.size() / features;
            rows.features = features;
            rows.dtype = detail::dtype<T>::value;
            if (detail::check_rows(of, owner, &rows, &row_labels, err) != XSM_OK) {
                return err->status;
            }
            return detail::lend(
                owner ? *owner : nullptr, rows,
                [&](const xsm_dense_rows *given) { return xsm_dataset_from_dense(in.get(), given, out, err); }, err);
        });
    }
    template <class How>
    static outcome<How, dataset> csr(const context &in, const std::shared_ptr<const void> *owner,
                                     span<const std::uint64_t> offsets, span<const std::uint32_t> index,
                                     span<const float> values, std::uint32_t features, const std::optional<labels> &of)
    {
        return detail::make<How, dataset>([&](xsm_dataset **out, xsm_error *err) -> xsm_status {
            if (detail::check_csr(offsets, index, values, err) != XSM_OK) {
                return err->status;
            }
            auto rows = init<xsm_csr_rows>();
            auto row_labels = init<xsm_labels>();
            rows.offsets = offsets.data();
            rows.index = index.data();
            rows.values = values.data();
            rows.rows = offsets.size() - 1;
            rows.features = features;
            rows.dtype = XSM_DTYPE_FLOAT32;
            if (detail::check_rows(of, owner, &rows, &row_labels, err) != XSM_OK) {
                return err->status;
            }
            return detail::lend(
                owner ? *owner : nullptr, rows,
                [&](const xsm_csr_rows *given) { return xsm_dataset_from_csr(in.get(), given, out, err); }, err);
        });
    }
};

/** @cond */
namespace detail
{
inline xsm_context *reference(const xsm_context *object) noexcept
{
    return xsm_context_ref(object);
}
inline xsm_dataset *reference(const xsm_dataset *object) noexcept
{
    return xsm_dataset_ref(object);
}
inline xsm_model *reference(const xsm_model *object) noexcept
{
    return xsm_model_ref(object);
}
inline xsm_sampler *reference(const xsm_sampler *object) noexcept
{
    return xsm_sampler_ref(object);
}
inline xsm_index *reference(const xsm_index *object) noexcept
{
    return xsm_index_ref(object);
}
inline xsm_estimator *reference(const xsm_estimator *object) noexcept
{
    return xsm_estimator_ref(object);
}
inline xsm_optimizer *reference(const xsm_optimizer *object) noexcept
{
    return xsm_optimizer_ref(object);
}
} // namespace detail
/** @endcond */

/** Another owner of a context, dataset, model, sampler, index, estimator or optimizer, which is released with the last
 *  one. */
template <class Class> Class share(const Class &object) noexcept
{
    return Class(detail::reference(object.get()));
}

/** The label of a class, as programs show it: its name, or its number; empty for a class that the map lacks. */
inline std::string label(const xsm_class_map &map, std::uint32_t class_number)
{
    std::string text(xsm_class_map_label(&map, class_number, nullptr, 0), '\0');
    xsm_class_map_label(&map, class_number, &text[0], text.size() + 1);
    return text;
}
/** The first class with this label; #XSM_NO_CLASS where there is none. */
inline std::uint32_t find_class(const xsm_class_map &map, cstring label) noexcept
{
    return xsm_class_map_find(&map, label.c_str());
}

/** Rows of a dataset: `count` from `first`. */
inline xsm_batch batch(const dataset &of, std::uint64_t first, std::size_t count) noexcept
{
    return xsm_batch_range(of.get(), first, count);
}
/** Some rows of a dataset. The numbers must stay valid while the batch is used. */
inline xsm_batch batch(const dataset &of, span<const std::uint64_t> rows) noexcept
{
    return xsm_batch_rows(of.get(), rows.data(), rows.size());
}
/** Rows of `features` numbers each, one after another, which must stay valid while the batch is used. */
template <class How = throwing> outcome<How, xsm_batch> batch(span<const float> values, std::uint32_t features)
{
    return detail::fill<How>(init<xsm_batch>(), [&](xsm_batch *made, xsm_error *err) -> xsm_status {
        if (features == 0 || values.size() % features != 0) {
            return detail::refuse(err, XSM_ERROR_SHAPE, "the values of a batch are not whole rows of its features");
        }
        *made = xsm_batch_values(values.data(), values.size() / features, features, features);
        return XSM_OK;
    });
}

/** Sparse rows, as those of dataset::from_csr(), which must stay valid while the batch is used. */
template <class How = throwing>
outcome<How, xsm_batch> batch(span<const std::uint64_t> offsets, span<const std::uint32_t> index,
                              span<const float> values, std::uint32_t features)
{
    return detail::fill<How>(init<xsm_batch>(), [&](xsm_batch *made, xsm_error *err) -> xsm_status {
        if (detail::check_csr(offsets, index, values, err) != XSM_OK) {
            return err->status;
        }
        *made = xsm_batch_sparse_values(offsets.data(), index.data(), values.data(), offsets.size() - 1, features);
        return XSM_OK;
    });
}

/** A batch keeps no rows: temporary containers would be gone before it is used. */
template <class How = throwing, class C, class = std::enable_if_t<detail::is_owner_v<C>>>
void batch(const dataset &of, C &&rows) = delete;
/** As above. */
template <class How = throwing, class C, class = std::enable_if_t<detail::is_owner_v<C>>>
void batch(C &&values, std::uint32_t features) = delete;
/** As above. */
template <class How = throwing, class A, class B, class C,
          class = std::enable_if_t<detail::is_owner_v<A> || detail::is_owner_v<B> || detail::is_owner_v<C>>>
void batch(A &&offsets, B &&index, C &&values, std::uint32_t features) = delete;

/** A transform of rows. */
class transform : public handle<xsm_transform, xsm_transform_free>
{
  public:
    using handle::handle;
    template <class How = throwing> static outcome<How, transform> make(const context &in, cstring description)
    {
        return detail::make<How, transform>([&](xsm_transform **out, xsm_error *err) {
            return xsm_transform_new(in.get(), description.c_str(), out, err);
        });
    }
    template <class How = throwing> outcome<How, void> fit(const dataset &rows)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_transform_fit(get(), rows.get(), err); });
    }
    template <class How = throwing> outcome<How, void> apply(dataset &rows) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_transform_apply(get(), rows.get(), err); });
    }
};

/** A model. */
class model : public handle<xsm_model, xsm_model_free>
{
  public:
    using handle::handle;
    template <class How = throwing>
    static outcome<How, model> linear(const context &in, std::uint32_t features, std::uint32_t classes,
                                      const xsm_model_options &options = init<xsm_model_options>())
    {
        return detail::make<How, model>([&](xsm_model **out, xsm_error *err) {
            return xsm_model_new_linear(in.get(), features, classes, &options, out, err);
        });
    }
    template <class How = throwing>
    static outcome<How, model> embedding(const context &in, std::uint32_t features, std::uint32_t hidden,
                                         std::uint32_t classes,
                                         const xsm_embedding_options &options = init<xsm_embedding_options>())
    {
        return detail::make<How, model>([&](xsm_model **out, xsm_error *err) {
            return xsm_model_new_embedding(in.get(), features, hidden, classes, &options, out, err);
        });
    }
    template <class How = throwing>
    static outcome<How, model> load(const context &in, cstring path,
                                    const xsm_load_options &options = init<xsm_load_options>())
    {
        return detail::make<How, model>([&](xsm_model **out, xsm_error *err) {
            return xsm_model_load(in.get(), path.c_str(), nullptr, &options, out, err);
        });
    }
    template <class How = throwing> outcome<How, void> save(cstring path) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_save(get(), path.c_str(), nullptr, err); });
    }
    /** From a storage, whose bytes the model uses in place: see xsm_storage::bytes. (storage.h) */
    template <class How = throwing>
    static outcome<How, model> load(const context &in, const xsm_storage &from,
                                    const xsm_load_options &options = init<xsm_load_options>())
    {
        return detail::make<How, model>([&](xsm_model **out, xsm_error *err) {
            return xsm_model_load(in.get(), nullptr, &from, &options, out, err);
        });
    }
    /** A model over the bytes of an owner, which is not empty: the model keeps it until the last reference to it is
     *  given up, or before that, once a function has copied the weights to change them. The bytes must not change. The
     *  owner is given up by the thread whose call needs it last, and after fork() in each process. Messages call the
     *  bytes by `name`. (buffer.h) */
    template <class How = throwing>
    static outcome<How, model> borrow(const context &in, std::shared_ptr<const void> owner,
                                      span<const unsigned char> bytes, cstring name = "storage",
                                      const xsm_load_options &options = init<xsm_load_options>())
    {
        return detail::make<How, model>([&](xsm_model **out, xsm_error *err) {
            if (!owner) {
                return detail::refuse(err, XSM_ERROR_ARGUMENT, "bytes are borrowed, but their owner is empty");
            }
            auto from = storage_of(bytes, name.c_str());
            return detail::keep_owner(
                std::move(owner), from,
                [&](const xsm_storage *given) { return xsm_model_load(in.get(), nullptr, given, &options, out, err); },
                err);
        });
    }
    /** To a storage, such as that of a buffer. (storage.h) */
    template <class How = throwing> outcome<How, void> save(const xsm_storage &to) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_save(get(), nullptr, &to, err); });
    }
    /** Puts a tensor of the host into the model. (tensors.h) */
    template <class How = throwing> outcome<How, void> set_tensor(const xsm_tensor &tensor)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_set_tensor(get(), &tensor, err); });
    }
    /** A view of a tensor of the host, valid until it is set again or removed. (tensors.h) */
    template <class How = throwing> outcome<How, xsm_tensor> tensor(cstring name) const
    {
        return detail::fill<How>(init<xsm_tensor>(), [&](xsm_tensor *tensor, xsm_error *err) {
            return xsm_model_get_tensor(get(), name.c_str(), tensor, err);
        });
    }
    /** The name of a tensor of the host, in alphabetic order; nullptr past the last. (tensors.h) */
    const char *tensor_name(std::size_t index) const noexcept
    {
        return xsm_model_tensor_name(get(), index);
    }
    /** Removes a tensor of the host. (tensors.h) */
    template <class How = throwing> outcome<How, void> remove_tensor(cstring name)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_remove_tensor(get(), name.c_str(), err); });
    }
    std::uint32_t classes() const noexcept
    {
        return xsm_model_class_count(get());
    }
    std::uint32_t features() const noexcept
    {
        return xsm_model_feature_count(get());
    }
    /** A view, valid until the model changes. */
    template <class How = throwing> outcome<How, xsm_model_info> info() const
    {
        return detail::fill<How>(init<xsm_model_info>(), [&](xsm_model_info *info, xsm_error *err) {
            return xsm_model_get_info(get(), info, err);
        });
    }
    /** H of an embedding model, 0 of a linear one. */
    std::uint32_t hidden() const noexcept
    {
        return detail::about<xsm_model_info>(xsm_model_get_info, get()).hidden;
    }
    /** A view, valid until the model changes. */
    template <class How = throwing> outcome<How, xsm_class_map> class_map() const
    {
        return detail::fill<How>(init<xsm_class_map>(), [&](xsm_class_map *map, xsm_error *err) {
            return xsm_model_get_class_map(get(), map, err);
        });
    }
    template <class How = throwing> outcome<How, void> set_class_map(const xsm_class_map &map)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_set_class_map(get(), &map, err); });
    }
    /** Gives the model a copy of a fitted transform; an empty one, `transform{}`, removes it. */
    template <class How = throwing> outcome<How, void> set_transform(const transform &fitted)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_set_transform(get(), fitted.get(), err); });
    }
    /** Rows of a file as the model takes them: read against its class map, and transformed. */
    template <class How = throwing>
    outcome<How, dataset> read(const context &in, cstring path,
                               xsm_read_options options = init<xsm_read_options>()) const
    {
        return detail::make<How, dataset>([&](xsm_dataset **out, xsm_error *err) {
            auto map = init<xsm_class_map>();
            xsm_dataset *rows = nullptr;
            options.classes = &map;
            if (xsm_model_get_class_map(get(), &map, err) ||
                xsm_dataset_read(in.get(), path.c_str(), nullptr, &options, &rows, err) ||
                xsm_model_transform(get(), rows, err)) {
                xsm_dataset_free(rows);
                return err->status;
            }
            *out = rows;
            return xsm_status(XSM_OK);
        });
    }
    /** Applies the model's transform to rows. */
    template <class How = throwing> outcome<How, void> apply_transform(dataset &rows) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_transform(get(), rows.get(), err); });
    }
    /** Sets an entry of the metadata; a nullptr removes it. */
    template <class How = throwing> outcome<How, void> set_metadata(cstring key, cstring value)
    {
        return detail::invoke<How>(
            [&](xsm_error *err) { return xsm_model_set_metadata(get(), key.c_str(), value.c_str(), err); });
    }
    /** An entry of the metadata, or nullptr; valid until the model changes. */
    const char *metadata(cstring key) const noexcept
    {
        return xsm_model_get_metadata(get(), key.c_str());
    }
    /** The weights to read and write, valid until the model is next trained or destroyed. Sparse weights
     *  (#XSM_LAYOUT_SPARSE_ROWS) have no `weight`. */
    template <class How = throwing> outcome<How, xsm_parameters> parameters()
    {
        return detail::fill<How>(init<xsm_parameters>(), [&](xsm_parameters *parameters, xsm_error *err) {
            return xsm_model_get_parameters(get(), parameters, err);
        });
    }
    /** The weights as they are stored, valid until the model changes. Copies nothing of a mapped file.
     *  (stored_weights.h) */
    template <class How = throwing> outcome<How, xsm_parameters_view> view() const
    {
        return detail::fill<How>(init<xsm_parameters_view>(), [&](xsm_parameters_view *view, xsm_error *err) {
            return xsm_model_get_view(get(), view, err);
        });
    }
    /** As parameters(), for the features' vectors of an embedding model. (stored_weights.h) */
    template <class How = throwing> outcome<How, xsm_embedding_parameters> embedding_parameters()
    {
        return detail::fill<How>(init<xsm_embedding_parameters>(),
                                 [&](xsm_embedding_parameters *parameters, xsm_error *err) {
                                     return xsm_model_get_embedding_parameters(get(), parameters, err);
                                 });
    }
    /** As view(), for the features' vectors of an embedding model. (stored_weights.h) */
    template <class How = throwing> outcome<How, xsm_embedding_view> embedding_view() const
    {
        return detail::fill<How>(init<xsm_embedding_view>(), [&](xsm_embedding_view *view, xsm_error *err) {
            return xsm_model_get_embedding_view(get(), view, err);
        });
    }
    /** Changes the order of the weights in memory, an XSM_LAYOUT_* value. Sparse weights become dense.
     *  (stored_weights.h) */
    template <class How = throwing> outcome<How, void> set_layout(std::int32_t layout)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_set_layout(get(), layout, err); });
    }
    /** Order of the weights in memory, an XSM_LAYOUT_* value. */
    std::int32_t layout() const noexcept
    {
        return detail::about<xsm_model_info>(xsm_model_get_info, get()).layout;
    }
    /** Weights that are stored: all, or those of #XSM_LAYOUT_SPARSE_ROWS. */
    std::uint64_t weights() const noexcept
    {
        return detail::about<xsm_model_info>(xsm_model_get_info, get()).weights;
    }
    /** Bytes that the weights take. */
    std::uint64_t bytes() const noexcept
    {
        return detail::about<xsm_model_info>(xsm_model_get_info, get()).bytes;
    }
    /** Trees of a label tree; 0 for other models. */
    std::uint32_t trees() const noexcept
    {
        return detail::about<xsm_model_info>(xsm_model_get_info, get()).trees;
    }
    /** A model without the small weights, which scores and predicts and cannot be trained. */
    template <class How = throwing>
    outcome<How, model> prune(const xsm_prune_options &options = init<xsm_prune_options>()) const
    {
        return detail::make<How, model>(
            [&](xsm_model **out, xsm_error *err) { return xsm_model_prune(get(), &options, out, err); });
    }
    /** A model with the weights in another type, an XSM_DTYPE_* value; in fewer bits it cannot be trained.
     *  (stored_weights.h) */
    template <class How = throwing>
    outcome<How, model> convert(const xsm_convert_options &options = init<xsm_convert_options>()) const
    {
        return detail::make<How, model>(
            [&](xsm_model **out, xsm_error *err) { return xsm_model_convert(get(), &options, out, err); });
    }
    /** Type of the weights, an XSM_DTYPE_* value. */
    std::int32_t dtype() const noexcept
    {
        return detail::about<xsm_model_info>(xsm_model_get_info, get()).dtype;
    }
    /** Fits the calibration to rows that the model was not trained on. */
    template <class How = throwing>
    outcome<How, xsm_calibrate_result> calibrate(const context &in, const dataset &rows,
                                                 const xsm_calibrate_options &options = init<xsm_calibrate_options>())
    {
        return detail::fill<How>(init<xsm_calibrate_result>(), [&](xsm_calibrate_result *result, xsm_error *err) {
            return xsm_model_calibrate(in.get(), get(), rows.get(), &options, result, err);
        });
    }
    template <class How = throwing> outcome<How, xsm_calibration> calibration() const
    {
        return detail::fill<How>(init<xsm_calibration>(), [&](xsm_calibration *calibration, xsm_error *err) {
            return xsm_model_get_calibration(get(), calibration, err);
        });
    }
    /** Sets the calibration; the starting value of an xsm_calibration removes it. */
    template <class How = throwing> outcome<How, void> set_calibration(const xsm_calibration &calibration)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_set_calibration(get(), &calibration, err); });
    }
    /** What scores are, an XSM_GEOMETRY_* value. */
    std::int32_t geometry() const noexcept
    {
        return detail::about<xsm_model_info>(xsm_model_get_info, get()).geometry;
    }
    /** How scores become probabilities, an XSM_LINK_* value. */
    std::int32_t link() const noexcept
    {
        return detail::about<xsm_model_info>(xsm_model_get_info, get()).link;
    }
    template <class How = throwing> outcome<How, void> set_link(std::int32_t link)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_set_link(get(), link, err); });
    }
    /** Adds features; `features` are all of them. */
    template <class How = throwing> outcome<How, void> grow(std::uint32_t features)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_grow(get(), features, nullptr, err); });
    }
    /** Adds classes, and features: the map has all classes, such as that of a dataset after extend(). */
    template <class How = throwing> outcome<How, void> grow(std::uint32_t features, const xsm_class_map &classes)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_model_grow(get(), features, &classes, err); });
    }
    /** What is added to the scores of the weights, an XSM_CORRECTION_* value. */
    std::int32_t correction() const noexcept
    {
        return detail::about<xsm_model_info>(xsm_model_get_info, get()).correction;
    }
    void clear_correction() noexcept
    {
        xsm_model_clear_correction(get());
    }
    /** Scores of given classes: `of` and `scores` have n times the same number of entries, for the n rows. */
    template <class How = throwing>
    outcome<How, void> scores(const xsm_batch &rows, span<const std::uint32_t> of, span<float> scores) const
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            if (scores.size() != of.size()) {
                return detail::wrong_size(err, "scores", scores.size(), of.size(), "one for each class asked for");
            }
            const std::size_t each = rows.count == 0 ? 0 : static_cast<std::size_t>(of.size() / rows.count);
            if (detail::product(rows.count, each) != of.size()) {
                return detail::wrong_size(err, "the classes", of.size(), detail::product(rows.count, each),
                                          "the same number for each row");
            }
            return xsm_model_scores(get(), &rows, of.data(), each, scores.data(), err);
        });
    }
    /** Scores of the classes [first, first+count), [n][count]. */
    template <class How = throwing>
    outcome<How, void> score_range(const xsm_batch &rows, std::uint32_t first, std::uint32_t count,
                                   span<float> scores) const
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            if (detail::check_batch_size(err, "scores", scores.size(), rows, count, "one for each row and class")) {
                return err->status;
            }
            return xsm_model_score_range(get(), &rows, first, count, scores.data(), count, err);
        });
    }
    /** Hidden vectors of rows, [n][H]. */
    template <class How = throwing> outcome<How, void> hidden_vectors(const xsm_batch &rows, span<float> vectors) const
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            const std::uint32_t width = hidden();
            if (width && detail::check_batch_size(err, "vectors", vectors.size(), rows, width, "H for each row")) {
                return err->status;
            }
            return xsm_model_hidden_vectors(get(), &rows, vectors.data(), width, err);
        });
    }
};

/** @cond */
namespace detail
{
/** An object with a name and options. */
template <class T, auto Free, class Info, auto GetInfo, auto Set, auto SetNumber, auto Get>
class with_options : public handle<T, Free>
{
  public:
    using handle<T, Free>::handle;
    /** The name; borrowed. */
    const char *name() const noexcept
    {
        return about<Info>(GetInfo, this->get()).name;
    }
    /** Sets an option from text. */
    template <class How = throwing> outcome<How, void> set(cstring option, cstring value)
    {
        return invoke<How>([&](xsm_error *err) { return Set(this->get(), option.c_str(), value.c_str(), err); });
    }
    /** Sets an option that is a number, or with a bool one that is yes or no. */
    template <class How = throwing, class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
    outcome<How, void> set(cstring option, Number value)
    {
        return invoke<How>([&](xsm_error *err) -> xsm_status {
            if constexpr (std::is_same_v<Number, bool>) {
                return Set(this->get(), option.c_str(), value ? "yes" : "no", err);
            } else {
                return SetNumber(this->get(), option.c_str(), static_cast<double>(value), err);
            }
        });
    }
    /** The value of an option as text; nothing if there is no such option. */
    std::optional<std::string> option(cstring name) const
    {
        const std::size_t length = Get(this->get(), name.c_str(), nullptr, 0);
        if (length == SIZE_MAX) {
            return std::nullopt;
        }
        std::string text(length + 1, '\0');
        Get(this->get(), name.c_str(), text.data(), text.size());
        text.resize(length);
        return text;
    }
};
} // namespace detail
/** @endcond */

/** A sampler. */
class sampler : public detail::with_options<xsm_sampler, xsm_sampler_free, xsm_sampler_info, xsm_sampler_get_info,
                                            xsm_sampler_set, xsm_sampler_set_number, xsm_sampler_get>
{
  public:
    using with_options::with_options;
    template <class How = throwing> static outcome<How, sampler> make(const context &in, cstring name)
    {
        return detail::make<How, sampler>(
            [&](xsm_sampler **out, xsm_error *err) { return xsm_sampler_new(in.get(), name.c_str(), out, err); });
    }
    /** Loads a sampler of save(); with a table, which must outlive it, one of the program's own. */
    template <class How = throwing>
    static outcome<How, sampler> load(const context &in, cstring path, const xsm_sampler_ops *ops = nullptr)
    {
        return detail::make<How, sampler>([&](xsm_sampler **out, xsm_error *err) {
            return xsm_sampler_load(in.get(), path.c_str(), nullptr, ops, out, err);
        });
    }
    template <class How = throwing> outcome<How, void> save(cstring path) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_sampler_save(get(), path.c_str(), nullptr, err); });
    }
    /** From a storage. (storage.h) */
    template <class How = throwing>
    static outcome<How, sampler> load(const context &in, const xsm_storage &from, const xsm_sampler_ops *ops = nullptr)
    {
        return detail::make<How, sampler>([&](xsm_sampler **out, xsm_error *err) {
            return xsm_sampler_load(in.get(), nullptr, &from, ops, out, err);
        });
    }
    /** To a storage. (storage.h) */
    template <class How = throwing> outcome<How, void> save(const xsm_storage &to) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_sampler_save(get(), nullptr, &to, err); });
    }
    template <class How = throwing> outcome<How, xsm_sampler_info> info() const
    {
        return detail::fill<How>(init<xsm_sampler_info>(), [&](xsm_sampler_info *info, xsm_error *err) {
            return xsm_sampler_get_info(get(), info, err);
        });
    }
    template <class How = throwing> outcome<How, void> bind(const dataset &train)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_sampler_bind(get(), train.get(), err); });
    }
    /** Log-probabilities of the classes [first, first+count), [n][count]. (draw.h) */
    template <class How = throwing>
    outcome<How, void> log_probabilities(const xsm_batch &rows, std::uint32_t first, std::uint32_t count,
                                         span<float> out) const
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            if (detail::check_batch_size(err, "log-probabilities", out.size(), rows, count,
                                         "one for each row and class")) {
                return err->status;
            }
            return xsm_sampler_log_probabilities(get(), &rows, first, count, out.data(), err);
        });
    }
    /** Draws; the members of `draw` name the arrays. (draw.h) */
    template <class How = throwing> outcome<How, void> draw(const xsm_draw &draw) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_sampler_draw(get(), &draw, err); });
    }
};

/** A search index. */
class index : public detail::with_options<xsm_index, xsm_index_free, xsm_index_info, xsm_index_get_info, xsm_index_set,
                                          xsm_index_set_number, xsm_index_get>
{
  public:
    using with_options::with_options;
    template <class How = throwing> static outcome<How, index> make(const context &in, cstring name)
    {
        return detail::make<How, index>(
            [&](xsm_index **out, xsm_error *err) { return xsm_index_new(in.get(), name.c_str(), out, err); });
    }
    /** Builds the index of a model, which it keeps until it is built again or destroyed. */
    template <class How = throwing> outcome<How, void> build(const model &of)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_index_build_model(get(), of.get(), err); });
    }
    /** Builds the index of rows of `width` numbers, one after another. Rows and bias are borrowed: they must stay valid
     *  until the index is built again or released, by predictors, too. (search.h) */
    template <class How = throwing>
    outcome<How, void> build(span<const float> rows, std::uint32_t width, span<const float> bias = {})
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            const std::size_t count = width == 0 ? 0 : rows.size() / width;
            if (width == 0 || count > XSM_CLASSES_MAX || rows.size() % width != 0) {
                return detail::refuse(err, XSM_ERROR_SHAPE, "the numbers to index are not whole rows of their width");
            }
            if (!bias.empty() && bias.size() != count) {
                return detail::wrong_size(err, "bias", bias.size(), count, "one for each row");
            }
            auto of = init<xsm_index_rows>();
            of.rows = rows.data();
            of.stride = width;
            of.count = static_cast<std::uint32_t>(count);
            of.width = width;
            of.bias = bias.data();
            return xsm_index_build(get(), &of, err);
        });
    }
    /** Loads an index of save() over the model that it was built of; with a table, which must outlive it, one of the
     *  program's own. (search.h) */
    template <class How = throwing>
    static outcome<How, index> load(const context &in, cstring path, const model &of,
                                    const xsm_index_ops *ops = nullptr)
    {
        return detail::make<How, index>([&](xsm_index **out, xsm_error *err) {
            return xsm_index_load(in.get(), path.c_str(), nullptr, ops, of.get(), out, err);
        });
    }
    /** Saves it in a file. (search.h) */
    template <class How = throwing> outcome<How, void> save(cstring path) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_index_save(get(), path.c_str(), nullptr, err); });
    }
    /** From a storage. (storage.h) */
    template <class How = throwing>
    static outcome<How, index> load(const context &in, const xsm_storage &from, const model &of,
                                    const xsm_index_ops *ops = nullptr)
    {
        return detail::make<How, index>([&](xsm_index **out, xsm_error *err) {
            return xsm_index_load(in.get(), nullptr, &from, ops, of.get(), out, err);
        });
    }
    /** To a storage. (storage.h) */
    template <class How = throwing> outcome<How, void> save(const xsm_storage &to) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_index_save(get(), nullptr, &to, err); });
    }
    template <class How = throwing> outcome<How, void> update(span<const std::uint32_t> changed)
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            if (changed.size() > XSM_CLASSES_MAX) {
                return detail::refuse(err, XSM_ERROR_RANGE, "more rows have changed than an index can have");
            }
            return xsm_index_update(get(), changed.data(), changed.size(), err);
        });
    }
    /** Searches; the members of `search` name the arrays. */
    template <class How = throwing> outcome<How, void> query(xsm_index_search &search) const
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_index_query(get(), &search, err); });
    }
    template <class How = throwing> outcome<How, xsm_index_info> info() const
    {
        return detail::fill<How>(init<xsm_index_info>(), [&](xsm_index_info *info, xsm_error *err) {
            return xsm_index_get_info(get(), info, err);
        });
    }
};

/** A sparse score gradient. */
class gradient : public handle<xsm_gradient, xsm_gradient_free>
{
  public:
    using handle::handle;
    template <class How = throwing> static outcome<How, gradient> make(const context &in)
    {
        return detail::make<How, gradient>(
            [&](xsm_gradient **out, xsm_error *err) { return xsm_gradient_new(in.get(), out, err); });
    }
    /** Pointers are borrowed until the gradient is next filled or destroyed. */
    template <class How = throwing> outcome<How, xsm_gradient_view> view() const
    {
        return detail::fill<How>(init<xsm_gradient_view>(), [&](xsm_gradient_view *view, xsm_error *err) {
            return xsm_gradient_get_view(get(), view, err);
        });
    }
};

/** An estimator. */
class estimator
    : public detail::with_options<xsm_estimator, xsm_estimator_free, xsm_estimator_info, xsm_estimator_get_info,
                                  xsm_estimator_set, xsm_estimator_set_number, xsm_estimator_get>
{
  public:
    using with_options::with_options;
    template <class How = throwing> static outcome<How, estimator> make(const context &in, cstring name)
    {
        return detail::make<How, estimator>(
            [&](xsm_estimator **out, xsm_error *err) { return xsm_estimator_new(in.get(), name.c_str(), out, err); });
    }
    template <class How = throwing> outcome<How, xsm_estimator_info> info() const
    {
        return detail::fill<How>(init<xsm_estimator_info>(), [&](xsm_estimator_info *info, xsm_error *err) {
            return xsm_estimator_get_info(get(), info, err);
        });
    }
    /** Sets an option that is a list of classes. */
    template <class How = throwing> outcome<How, void> set_classes(cstring option, span<const std::uint32_t> classes)
    {
        std::string list;
        for (const std::uint32_t each : classes) {
            if (!list.empty()) {
                list += ',';
            }
            list += std::to_string(each);
        }
        return this->template set<How>(option, list);
    }
    /** Draws with `from`, which the estimator keeps; an empty one, `sampler{}`, stands for the estimator's own. */
    template <class How = throwing> outcome<How, void> set_sampler(const sampler &from)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_estimator_set_sampler(get(), from.get(), err); });
    }
    /** Searches with indexes like this one, whose table and options are copied; an empty one, `index{}`, stands for the
     *  options of the estimator. (ext/index.h) */
    template <class How = throwing> outcome<How, void> set_index(const index &like)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_estimator_set_index(get(), like.get(), err); });
    }
    /** Prepares for a model and rows, which the estimator keeps until it is bound again or released. */
    template <class How = throwing> outcome<How, void> bind(const model &to, const dataset &train)
    {
        return detail::invoke<How>(
            [&](xsm_error *err) { return xsm_estimator_bind(get(), to.get(), train.get(), err); });
    }
    /** As bind(), for rows whose features come with each batch: only the labels of `train` are used. */
    template <class How = throwing> outcome<How, void> bind_labels(const model &to, const dataset &train)
    {
        return detail::invoke<How>(
            [&](xsm_error *err) { return xsm_estimator_bind_labels(get(), to.get(), train.get(), err); });
    }
    /** As bind(), for rows whose features and labels come with each batch. */
    template <class How = throwing>
    outcome<How, void> bind_stream(const model &to, const xsm_stream_options &options = init<xsm_stream_options>())
    {
        return detail::invoke<How>(
            [&](xsm_error *err) { return xsm_estimator_bind_stream(get(), to.get(), &options, err); });
    }
    template <class How = throwing> outcome<How, void> compute(const xsm_batch &rows, double eta, gradient &into)
    {
        return detail::invoke<How>(
            [&](xsm_error *err) { return xsm_estimator_gradient(get(), &rows, eta, into.get(), err); });
    }
    /** As compute(), with the gradient by the rows' features, [n][features] with batch(span, features). */
    template <class How = throwing>
    outcome<How, void> compute(const xsm_batch &rows, double eta, gradient &into, span<float> by_input)
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            if (!rows.values) {
                return detail::refuse(err, XSM_ERROR_ARGUMENT,
                                      "the gradient by the features needs a batch of the program's own values");
            }
            if (detail::check_batch_size(err, "the gradient by the features", by_input.size(), rows, rows.features,
                                         "one for each row and feature")) {
                return err->status;
            }
            return xsm_estimator_gradient_input(get(), &rows, eta, into.get(), by_input.data(), rows.features, err);
        });
    }
};

/** An optimizer. */
class optimizer
    : public detail::with_options<xsm_optimizer, xsm_optimizer_free, xsm_optimizer_info, xsm_optimizer_get_info,
                                  xsm_optimizer_set, xsm_optimizer_set_number, xsm_optimizer_get>
{
  public:
    using with_options::with_options;
    template <class How = throwing> static outcome<How, optimizer> make(const context &in, cstring name)
    {
        return detail::make<How, optimizer>(
            [&](xsm_optimizer **out, xsm_error *err) { return xsm_optimizer_new(in.get(), name.c_str(), out, err); });
    }
    template <class How = throwing> outcome<How, void> bind(model &to)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_optimizer_bind(get(), to.get(), err); });
    }
    template <class How = throwing>
    outcome<How, void> apply(const xsm_batch &rows, const gradient &computed, double eta)
    {
        return detail::invoke<How>(
            [&](xsm_error *err) { return xsm_optimizer_apply(get(), &rows, computed.get(), eta, err); });
    }
};

/** A trainer. It keeps model, rows, estimator and optimizer, and the test rows of the options. */
class trainer : public handle<xsm_trainer, xsm_trainer_free>
{
  public:
    using handle::handle;
    template <class How = throwing>
    static outcome<How, trainer> make(const context &in, model &to, const dataset &train, estimator &with,
                                      optimizer &by, const xsm_trainer_options &options = init<xsm_trainer_options>())
    {
        return detail::make<How, trainer>([&](xsm_trainer **out, xsm_error *err) {
            return xsm_trainer_new(in.get(), to.get(), train.get(), with.get(), by.get(), &options, out, err);
        });
    }
    /** With a callback, which the trainer keeps: `progress(const xsm_progress &)` returns nothing, or #flow::cancel.
     *  It replaces that of the options. */
    template <class How = throwing, class Progress>
    static outcome<How, trainer> make(const context &in, model &to, const dataset &train, estimator &with,
                                      optimizer &by, xsm_trainer_options options, Progress &&progress)
    {
        auto shown = std::make_unique<callback>(detail::as_flow<xsm_progress>(std::forward<Progress>(progress)));
        options.progress = &detail::show<xsm_progress>;
        options.progress_user = shown.get();
        return detail::fill<How>(trainer(), [&](trainer *made, xsm_error *err) {
            xsm_trainer *out = nullptr;
            const xsm_status status =
                xsm_trainer_new(in.get(), to.get(), train.get(), with.get(), by.get(), &options, &out, err);
            *made = trainer(out);
            made->progress_ = std::move(shown);
            return status;
        });
    }
    /** Deleted, because the C object does not keep the trainer's callback. */
    xsm_trainer *release() = delete;
    template <class How = throwing> outcome<How, void> run()
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_trainer_run(get(), err); });
    }
    template <class How = throwing> outcome<How, void> checkpoint(cstring path)
    {
        return detail::invoke<How>(
            [&](xsm_error *err) { return xsm_trainer_checkpoint(get(), path.c_str(), nullptr, err); });
    }
    template <class How = throwing> outcome<How, void> resume(cstring path)
    {
        return detail::invoke<How>(
            [&](xsm_error *err) { return xsm_trainer_resume(get(), path.c_str(), nullptr, err); });
    }
    /** To a storage. (storage.h) */
    template <class How = throwing> outcome<How, void> checkpoint(const xsm_storage &to)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_trainer_checkpoint(get(), nullptr, &to, err); });
    }
    /** From a storage. (storage.h) */
    template <class How = throwing> outcome<How, void> resume(const xsm_storage &from)
    {
        return detail::invoke<How>([&](xsm_error *err) { return xsm_trainer_resume(get(), nullptr, &from, err); });
    }
    template <class How = throwing> outcome<How, xsm_progress> progress() const
    {
        return detail::fill<How>(init<xsm_progress>(), [&](xsm_progress *progress, xsm_error *err) {
            return xsm_trainer_get_progress(get(), progress, err);
        });
    }

  private:
    using callback = std::function<flow(const xsm_progress &)>;
    std::unique_ptr<callback> progress_;
};

/** @cond */
namespace detail
{

/** A prediction of so many rows with the arrays of a caller, whose sizes are checked. */
inline xsm_status fill_prediction(xsm_error *err, const xsm_batch &rows, std::uint32_t top, xsm_prediction *prediction,
                                  span<std::uint32_t> classes, span<std::uint32_t> lengths, span<float> scores,
                                  span<double> probabilities)
{
    const char *why = "top() for each row";
    if (prediction->classes || prediction->lengths || prediction->scores || prediction->probabilities) {
        return refuse(err, XSM_ERROR_ARGUMENT,
                      "the limits have arrays of results, which are arguments of their own; NULL is accepted");
    }
    if (check_batch_size(err, "classes", classes.size(), rows, top, why) ||
        (!lengths.empty() && check_batch_size(err, "lengths", lengths.size(), rows, 1, "one a row")) ||
        (!scores.empty() && check_batch_size(err, "scores", scores.size(), rows, top, why)) ||
        (!probabilities.empty() && check_batch_size(err, "probabilities", probabilities.size(), rows, top, why))) {
        return err->status;
    }
    prediction->lengths = lengths.empty() ? nullptr : lengths.data();
    prediction->classes = classes.data();
    prediction->scores = scores.empty() ? nullptr : scores.data();
    prediction->probabilities = probabilities.empty() ? nullptr : probabilities.data();
    return XSM_OK;
}

} // namespace detail
/** @endcond */

/** Which classes may be predicted: xsm_prediction::filter is its get(). Any number of threads may use one.
 *  (filter.h) */
class filter : public handle<xsm_filter, xsm_filter_free>
{
  public:
    using handle::handle;
    /** The classes that every member allows. (filter.h) */
    template <class How = throwing> static outcome<How, filter> make(const context &in, const xsm_filter_classes &of)
    {
        return detail::make<How, filter>(
            [&](xsm_filter **out, xsm_error *err) { return xsm_filter_new(in.get(), &of, out, err); });
    }
    /** Allows only these of `classes` classes; an empty list allows none. (filter.h) */
    template <class How = throwing>
    static outcome<How, filter> allow(const context &in, std::uint32_t classes, span<const std::uint32_t> list)
    {
        static constexpr std::uint32_t none = 0;
        auto of = init<xsm_filter_classes>();
        of.classes = classes;
        of.allow = list.empty() ? &none : list.data();
        of.allow_count = list.size();
        return make<How>(in, of);
    }
    /** Allows all of `classes` classes but these. (filter.h) */
    template <class How = throwing>
    static outcome<How, filter> deny(const context &in, std::uint32_t classes, span<const std::uint32_t> list)
    {
        auto of = init<xsm_filter_classes>();
        of.classes = classes;
        of.deny = list.empty() ? nullptr : list.data();
        of.deny_count = list.size();
        return make<How>(in, of);
    }
    /** Allows those of `classes` classes whose bit is 1: class k has bit k%64 of word k/64. (filter.h) */
    template <class How = throwing>
    static outcome<How, filter> bitmap(const context &in, std::uint32_t classes, span<const std::uint64_t> words)
    {
        return detail::make<How, filter>([&](xsm_filter **out, xsm_error *err) -> xsm_status {
            const std::size_t needed = classes / 64 + (classes % 64 != 0 ? 1U : 0U);
            if (words.size() != needed) {
                return detail::wrong_size(err, "words", words.size(), needed, "a bit for each class");
            }
            auto of = init<xsm_filter_classes>();
            of.classes = classes;
            of.bitmap = words.data();
            return xsm_filter_new(in.get(), &of, out, err);
        });
    }
    /** Number of classes that it leaves. (filter.h) */
    std::uint32_t left() const noexcept
    {
        return xsm_filter_left(get());
    }
};

/** A predictor: the scratch memory of one thread. It keeps the model, and the index of the options. */
class predictor : public handle<xsm_predictor, xsm_predictor_free>
{
  public:
    using handle::handle;
    template <class How = throwing>
    static outcome<How, predictor> make(const model &of,
                                        const xsm_predictor_options &options = init<xsm_predictor_options>())
    {
        return detail::make<How, predictor>(
            [&](xsm_predictor **out, xsm_error *err) { return xsm_predictor_new(of.get(), &options, out, err); });
    }
    /** Searches with an index of the model, which replaces that of the options. */
    template <class How = throwing>
    static outcome<How, predictor> make(const model &of, const index &by,
                                        xsm_predictor_options options = init<xsm_predictor_options>())
    {
        options.index = by.get();
        return make<How>(of, options);
    }
    template <class How = throwing> outcome<How, xsm_predictor_info> info() const
    {
        return detail::fill<How>(init<xsm_predictor_info>(), [&](xsm_predictor_info *info, xsm_error *err) {
            return xsm_predictor_get_info(get(), info, err);
        });
    }
    /** Classes for each row. */
    std::uint32_t top() const noexcept
    {
        return detail::about<xsm_predictor_info>(xsm_predictor_get_info, get()).top;
    }
    /** The best classes of rows, [n][top]; scores and probabilities if their spans are not empty. */
    template <class How = throwing>
    outcome<How, void> run(const xsm_batch &rows, span<std::uint32_t> classes, span<float> scores = {},
                           span<double> probabilities = {})
    {
        return run<How>(init<xsm_prediction>(), rows, classes, {}, scores, probabilities);
    }
    /** The same for the classes that the filters and thresholds of a prediction leave (filter.h), whose batch and
     * results are NULL; `lengths` [n], the number of classes of each row, may be empty. */
    template <class How = throwing>
    outcome<How, void> run(const xsm_prediction &limits, const xsm_batch &rows, span<std::uint32_t> classes,
                           span<std::uint32_t> lengths, span<float> scores = {}, span<double> probabilities = {})
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            auto prediction = limits;
            prediction.batch = &rows;
            if (detail::fill_prediction(err, rows, top(), &prediction, classes, lengths, scores, probabilities)) {
                return err->status;
            }
            return xsm_predictor_run(get(), &prediction, err);
        });
    }
};

/** Result of predict(): the best classes of each row. */
struct predictions {
    std::uint32_t top = 0;              /**< Classes a row: the smaller of the option and K. */
    std::vector<std::uint32_t> classes; /**< [n][top] highest score first; #XSM_NO_CLASS behind the last. */
    std::vector<std::uint32_t> lengths; /**< [n] classes of each row: `top`, or what the limits leave. */
    std::vector<float> scores;          /**< [n][top] */
    std::vector<double> probabilities;  /**< [n][top], or empty. */
};

/** The best classes of many rows on the context's threads, within the filters and thresholds of a prediction, whose
 *  batch and results are NULL; with their probabilities if these are wanted. */
template <class How = throwing>
outcome<How, predictions> predict(const context &in, const model &of, const xsm_batch &rows, bool probabilities = false,
                                  const xsm_predictor_options &options = init<xsm_predictor_options>(),
                                  const xsm_prediction &limits = init<xsm_prediction>())
{
    return detail::fill<How>(predictions(), [&](predictions *out, xsm_error *err) -> xsm_status {
        auto prediction = limits;
        const auto wanted = options.top ? options.top : std::uint32_t(5);
        const auto count = static_cast<std::size_t>(rows.count);
        out->top = wanted < of.classes() ? wanted : of.classes();
        out->classes.resize(count * out->top);
        out->lengths.resize(count);
        out->scores.resize(count * out->top);
        out->probabilities.resize(probabilities ? count * out->top : 0);
        prediction.batch = &rows;
        if (detail::fill_prediction(err, rows, out->top, &prediction, out->classes, out->lengths, out->scores,
                                    out->probabilities)) {
            return err->status;
        }
        return xsm_predict(in.get(), of.get(), &options, &prediction, err);
    });
}
/** The best classes of all rows of a dataset. */
template <class How = throwing>
outcome<How, predictions> predict(const context &in, const model &of, const dataset &rows, bool probabilities = false,
                                  const xsm_predictor_options &options = init<xsm_predictor_options>())
{
    const auto info = detail::about<xsm_dataset_info>(xsm_dataset_get_info, rows.get());
    return predict<How>(in, of, batch(rows, 0, static_cast<std::size_t>(info.rows)), probabilities, options);
}

/** From the bytes of a row to what a model scores, one row at a time, by one thread. (encoder.h) */
class encoder : public handle<xsm_encoder, xsm_encoder_free>
{
  public:
    using handle::handle;
    /** An encoder for a model, which it keeps. (encoder.h) */
    template <class How = throwing>
    static outcome<How, encoder> make(const model &of, const xsm_encoder_options &options = init<xsm_encoder_options>())
    {
        return detail::make<How, encoder>(
            [&](xsm_encoder **out, xsm_error *err) { return xsm_encoder_new(of.get(), &options, out, err); });
    }
    /** A row of text, or of features as `f:v f:v`, valid until the next one is encoded. (encoder.h) */
    template <class How = throwing> outcome<How, xsm_batch> encode(std::string_view bytes)
    {
        return detail::fill<How>(init<xsm_batch>(), [&](xsm_batch *row, xsm_error *err) {
            return xsm_encoder_encode(get(), bytes.data(), bytes.size(), row, err);
        });
    }
    /** A row of features, strictly increasing, and their values, valid until the next one is encoded. (encoder.h)
     */
    template <class How = throwing>
    outcome<How, xsm_batch> encode(span<const std::uint32_t> features, span<const float> values)
    {
        return detail::fill<How>(init<xsm_batch>(), [&](xsm_batch *row, xsm_error *err) -> xsm_status {
            if (values.size() != features.size()) {
                return detail::wrong_size(err, "values", values.size(), features.size(), "one a feature");
            }
            return xsm_encoder_encode_pairs(get(), features.data(), values.data(), features.size(), row, err);
        });
    }
    /** The best classes of a row by a predictor of the same model, [top]; scores and probabilities if their spans are
     *  not empty. (encoder.h) */
    template <class How = throwing>
    outcome<How, void> predict(std::string_view bytes, predictor &by, span<std::uint32_t> classes,
                               span<float> scores = {}, span<double> probabilities = {})
    {
        return run<How>(init<xsm_prediction>(), bytes, by, classes, nullptr, scores, probabilities);
    }
    /** The same for the classes that the filters and thresholds of a prediction leave, whose batch and results are
     *  NULL; `length` becomes their number. (encoder.h) */
    template <class How = throwing>
    outcome<How, void> predict(const xsm_prediction &limits, std::string_view bytes, predictor &by,
                               span<std::uint32_t> classes, std::uint32_t &length, span<float> scores = {},
                               span<double> probabilities = {})
    {
        return run<How>(limits, bytes, by, classes, &length, scores, probabilities);
    }

  private:
    template <class How>
    outcome<How, void> run(const xsm_prediction &limits, std::string_view bytes, predictor &by,
                           span<std::uint32_t> classes, std::uint32_t *length, span<float> scores,
                           span<double> probabilities)
    {
        return detail::invoke<How>([&](xsm_error *err) -> xsm_status {
            auto prediction = limits;
            auto row = init<xsm_batch>();
            row.count = 1;
            const span<std::uint32_t> lengths(length, length ? 1U : 0U);
            if (detail::fill_prediction(err, row, by.top(), &prediction, classes, lengths, scores, probabilities)) {
                return err->status;
            }
            prediction.batch = nullptr;
            return xsm_encoder_predict(get(), bytes.data(), bytes.size(), by.get(), &prediction, err);
        });
    }
};

/** Result of evaluate(): the measures without arrays, and the arrays that were asked for. */
struct evaluation {
    xsm_metrics measures = XSM_METRICS_INIT; /**< Its arrays are not set. */
    std::vector<double> precision;           /**< [top] precision[k-1]: precision at k. */
    std::vector<double> ndcg;                /**< [top] ndcg[k-1]: nDCG at k. */
    std::vector<double> psp;                 /**< [top] precision with propensities; NaN without class counts. */
    std::vector<double> psndcg;              /**< [top] nDCG with propensities; NaN without class counts. */
    std::vector<double> recall;              /**< [top] recall at k. */
    std::vector<double> hits;                /**< [top] share of rows with a label among the k best. */
    std::vector<double> reciprocal_rank;     /**< [top] MRR at k. */
};

/** Evaluates a model; with `top` above 0 also the measures of the k best classes, for k of 1 to `top`. A label
 * tree is searched with the beam of the options. */
template <class How = throwing>
outcome<How, evaluation> evaluate(const context &in, const model &of, const dataset &rows, std::uint32_t top = 0,
                                  const xsm_evaluate_options &options = init<xsm_evaluate_options>())
{
    return detail::fill<How>(evaluation(), [&](evaluation *out, xsm_error *err) {
        auto metrics = init<xsm_metrics>();
        out->precision.resize(top);
        out->ndcg.resize(top);
        out->psp.resize(top);
        out->psndcg.resize(top);
        out->recall.resize(top);
        out->hits.resize(top);
        out->reciprocal_rank.resize(top);
        if (top) {
            metrics.top = top;
            metrics.precision = out->precision.data();
            metrics.ndcg = out->ndcg.data();
            metrics.psp = out->psp.data();
            metrics.psndcg = out->psndcg.data();
            metrics.recall = out->recall.data();
            metrics.hits = out->hits.data();
            metrics.reciprocal_rank = out->reciprocal_rank.data();
        }
        const xsm_status status = xsm_evaluate(in.get(), of.get(), rows.get(), &options, &metrics, err);
        out->measures = metrics;
        out->measures.precision = nullptr;
        out->measures.ndcg = nullptr;
        out->measures.psp = nullptr;
        out->measures.psndcg = nullptr;
        out->measures.recall = nullptr;
        out->measures.hits = nullptr;
        out->measures.reciprocal_rank = nullptr;
        return status;
    });
}

/** Result of evaluate_classes(): the measures without arrays, and the arrays. */
struct class_evaluation {
    xsm_class_metrics measures = XSM_CLASS_METRICS_INIT; /**< Its arrays are not set. */
    std::vector<double> labels;                          /**< [K] rows that have the class as a label. */
    std::vector<double> predicted;                       /**< [K] rows for which it is predicted. */
    std::vector<double> right;                           /**< [K] rows where it is both. */
    std::vector<xsm_confusion> confusions;               /**< The pairs with most rows, up to `most` of them. */
};

/** Compares what is predicted with the labels, class by class. */
template <class How = throwing>
outcome<How, class_evaluation>
evaluate_classes(const context &in, const model &of, const dataset &rows, std::size_t most = 0,
                 const xsm_class_metrics_options &options = init<xsm_class_metrics_options>())
{
    return detail::fill<How>(class_evaluation(), [&](class_evaluation *out, xsm_error *err) {
        auto metrics = init<xsm_class_metrics>();
        out->labels.resize(of.classes());
        out->predicted.resize(of.classes());
        out->right.resize(of.classes());
        out->confusions.resize(most);
        metrics.most = most;
        metrics.labels = out->labels.data();
        metrics.predicted = out->predicted.data();
        metrics.right = out->right.data();
        metrics.confusions = most ? out->confusions.data() : nullptr;
        const xsm_status status = xsm_evaluate_classes(in.get(), of.get(), rows.get(), &options, &metrics, err);
        if (status == XSM_OK && metrics.found < most) {
            out->confusions.resize(static_cast<std::size_t>(metrics.found));
        }
        out->measures = metrics;
        out->measures.labels = nullptr;
        out->measures.predicted = nullptr;
        out->measures.right = nullptr;
        out->measures.confusions = nullptr;
        return status;
    });
}

/** Result of evaluate_search(): the measures without arrays, and the arrays. */
struct search_evaluation {
    xsm_search_metrics measures = XSM_SEARCH_METRICS_INIT; /**< Its arrays are not set. */
    std::vector<double> recall;                            /**< [top] recall[k-1]: share of the k best classes found. */
    std::vector<double> precision;                         /**< [top] precision[k-1]; NaN without labels. */
};

/** Compares the search of a predictor's options, an index or a beam, with scoring all classes, at 1 to `top`. */
template <class How = throwing>
outcome<How, search_evaluation> evaluate_search(const context &in, const model &of, const dataset &rows,
                                                std::uint32_t top, const xsm_predictor_options &options)
{
    return detail::fill<How>(search_evaluation(), [&](search_evaluation *out, xsm_error *err) {
        auto metrics = init<xsm_search_metrics>();
        out->recall.resize(top);
        out->precision.resize(top);
        metrics.top = top;
        metrics.recall = out->recall.data();
        metrics.precision = out->precision.data();
        const xsm_status status = xsm_evaluate_search(in.get(), of.get(), rows.get(), &options, &metrics, err);
        out->measures = metrics;
        out->measures.recall = nullptr;
        out->measures.precision = nullptr;
        return status;
    });
}
/** As evaluate_search() with the options of a predictor that searches the index. */
template <class How = throwing>
outcome<How, search_evaluation> evaluate_search(const context &in, const model &of, const dataset &rows,
                                                std::uint32_t top, const index &by)
{
    auto options = init<xsm_predictor_options>();
    options.index = by.get();
    return evaluate_search<How>(in, of, rows, top, options);
}

/** Result of fit_label_tree(): the model, and what was done. */
struct label_tree {
    xsoftmax::model model;                                     /**< The model. */
    xsm_label_tree_result result = XSM_LABEL_TREE_RESULT_INIT; /**< What was done. */
};

/** Trains a label tree, for very many labels over sparse rows. */
template <class How = throwing>
outcome<How, label_tree> fit_label_tree(const context &in, const dataset &train,
                                        const xsm_label_tree_options &options = init<xsm_label_tree_options>())
{
    return detail::fill<How>(label_tree(), [&](label_tree *out, xsm_error *err) {
        xsm_model *made = nullptr;
        const xsm_status status = xsm_fit_label_tree(in.get(), train.get(), &options, &made, &out->result, err);
        out->model = xsoftmax::model(made);
        return status;
    });
}

/** Result of train(): the model, and what was done. */
struct trained {
    xsoftmax::model model;                           /**< The model. */
    xsm_train_report report = XSM_TRAIN_REPORT_INIT; /**< What was done; its texts are the model's. */
};

/** Trains a model on rows, and chooses what is not named. The rows, and those of the options, are transformed as the
 *  model takes them. */
template <class How = throwing>
outcome<How, trained> train(const context &in, dataset &rows,
                            const xsm_train_options &options = init<xsm_train_options>())
{
    return detail::fill<How>(trained(), [&](trained *out, xsm_error *err) {
        xsm_model *made = nullptr;
        const xsm_status status = xsm_train(in.get(), rows.get(), &options, &made, &out->report, err);
        out->model = xsoftmax::model(made);
        return status;
    });
}

/** Fits a model to all rows at once. The estimator keeps both, as after bind(). If a score is not finite, or a callback
 *  ends it, the model has the best weights so far. */
template <class How = throwing>
outcome<How, xsm_fit_result> fit_full_batch(const context &in, model &to, const dataset &train, estimator &with,
                                            const xsm_fit_options &options = init<xsm_fit_options>())
{
    return detail::fill<How>(init<xsm_fit_result>(), [&](xsm_fit_result *result, xsm_error *err) {
        return xsm_fit_full_batch(in.get(), to.get(), train.get(), with.get(), &options, result, err);
    });
}
/** With a callback: `progress(const xsm_progress &)` returns nothing, or #flow::cancel. It replaces that of the
 *  options. */
template <class How = throwing, class Progress>
outcome<How, xsm_fit_result> fit_full_batch(const context &in, model &to, const dataset &train, estimator &with,
                                            xsm_fit_options options, Progress &&progress)
{
    auto shown = detail::as_flow<xsm_progress>(std::forward<Progress>(progress));
    options.progress = &detail::show<xsm_progress>;
    options.progress_user = &shown;
    return fit_full_batch<How>(in, to, train, with, options);
}

/** Sets a linear model to the means of the classes' rows, without training; returns the variance. */
template <class How = throwing> outcome<How, double> fit_class_means(const context &in, model &to, const dataset &train)
{
    return detail::fill<How>(double(), [&](double *variance, xsm_error *err) {
        return xsm_fit_class_means(in.get(), to.get(), train.get(), variance, err);
    });
}

} // namespace XSOFTMAX_RELEASE
} // namespace xsoftmax

#undef XSOFTMAX_RELEASE
#undef XSOFTMAX_JOIN_
#undef XSOFTMAX_NAME_

#endif
