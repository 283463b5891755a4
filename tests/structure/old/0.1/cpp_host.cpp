// A C++ program as the host: its own thread pool, rows from memory, training with progress, evaluation, an index, the
// five best classes of a row, a model saved and loaded. Errors are exceptions.
//
//     cpp_host [MODEL-FILE]
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <xsoftmax.hpp>

namespace
{

constexpr std::uint32_t CLASSES = 200, FEATURES = 16;
constexpr std::size_t TRAIN_ROWS = 8000, TEST_ROWS = 2000;

// Threads that wait for work. The thread that asks works, too.
class pool
{
  public:
    explicit pool(unsigned threads)
    {
        for (unsigned i = 1; i < threads; i++) {
            threads_.emplace_back([this] { work(); });
        }
    }
    ~pool()
    {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            end_ = true;
        }
        changed_.notify_all();
        for (auto &thread : threads_) {
            thread.join();
        }
    }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;

    // Runs job(0) to job(count - 1), and returns when all have ended.
    void run(xsoftmax::job job, std::size_t count)
    {
        task mine{job, count, 0, 0};
        std::unique_lock<std::mutex> lock(mutex_);
        tasks_.push_back(&mine);
        changed_.notify_all();
        while (mine.ended < count) {
            if (mine.next < count) {
                step(mine, lock);
            } else {
                changed_.wait(lock);
            }
        }
    }

  private:
    struct task {
        xsoftmax::job job;
        std::size_t count, next, ended;
    };
    void step(task &of, std::unique_lock<std::mutex> &lock)
    {
        const std::size_t index = of.next++;
        if (of.next == of.count) { // nothing is left to begin
            for (auto i = tasks_.begin(); i != tasks_.end(); ++i) {
                if (*i == &of) {
                    tasks_.erase(i);
                    break;
                }
            }
        }
        lock.unlock();
        of.job(index);
        lock.lock();
        if (++of.ended == of.count) {
            changed_.notify_all();
        }
    }
    void work()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!end_) {
            if (tasks_.empty()) {
                changed_.wait(lock);
            } else {
                step(*tasks_.front(), lock);
            }
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<task *> tasks_;
    std::vector<std::thread> threads_;
    bool end_ = false;
};

// A number in [-1, 1), the same on every machine (splitmix64).
float noise(std::uint64_t &state)
{
    std::uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return static_cast<float>((z ^ (z >> 31)) >> 40) / 8388608.0f - 1.0f;
}

// Rows around the centre of their class.
struct data {
    data(std::size_t rows, std::uint64_t seed) : values(rows * FEATURES), classes(rows)
    {
        std::uint64_t centre_state = 1;
        std::vector<float> centres(CLASSES * FEATURES);
        for (auto &number : centres) {
            number = noise(centre_state);
        }
        for (std::size_t i = 0; i < rows; i++) {
            classes[i] = static_cast<std::uint32_t>(i % CLASSES);
            for (std::size_t j = 0; j < FEATURES; j++) {
                values[i * FEATURES + j] = centres[classes[i] * FEATURES + j] + noise(seed) / 2;
            }
        }
    }
    std::vector<float> values;
    std::vector<std::uint32_t> classes;
};

int host(const char *path)
{
    pool threads(4); // declared first, as it must outlive all that is made with the context
    const auto context = xsoftmax::context::make(xsoftmax::context_options().pool(
        [&threads](xsoftmax::job job, std::size_t count) { threads.run(job, count); }, 4));

    const data train_data(TRAIN_ROWS, 2), test_data(TEST_ROWS, 3);
    const auto train = xsoftmax::dataset::from_dense(context, train_data.values, FEATURES,
                                                     xsoftmax::labels{train_data.classes, CLASSES});
    const auto test = xsoftmax::dataset::from_dense(context, test_data.values, FEATURES,
                                                    xsoftmax::labels{test_data.classes, CLASSES});

    auto model = xsoftmax::model::linear(context, FEATURES, CLASSES);
    auto estimator = xsoftmax::estimator::make(context, "implicit");
    estimator.set("negatives", 10);
    auto optimizer = xsoftmax::optimizer::make(context, "sgd");
    auto options = xsoftmax::init<xsm_trainer_options>();
    options.epochs = 5;
    options.schedule = XSM_SCHEDULE_STEP;
    auto trainer =
        xsoftmax::trainer::make(context, model, train, estimator, optimizer, options, [](const xsm_progress &progress) {
            if (progress.epoch_ended) {
                std::printf("epoch %d: loss %.3f\n", static_cast<int>(progress.epoch), progress.loss);
            }
        });
    trainer.run();

    const auto measured = xsoftmax::evaluate(context, model, test, 5);
    std::printf("test rows: error %.3f, one label among five: %.3f\n", measured.measures.error,
                5 * measured.precision[4]);
    auto index = xsoftmax::index::make(context, "spherical");
    index.build(model);
    const auto searched = xsoftmax::evaluate_search(context, model, test, 5, index);
    std::printf("an index scores %.0f of %u classes a row and finds %.3f of the best five\n", searched.measures.probed,
                static_cast<unsigned>(CLASSES), searched.recall[4]);

    model.save(path);
    const auto loaded = xsoftmax::model::load(context, path);
    std::vector<std::uint32_t> before(5), after(5);
    std::vector<double> probabilities(5);
    const xsm_batch row = xsoftmax::batch(test, 7, 1);
    xsoftmax::predictor::make(model).run(row, before);
    xsoftmax::predictor::make(loaded).run(row, after, {}, probabilities);
    std::printf("row 7, of class %u:", static_cast<unsigned>(test_data.classes[7]));
    for (std::size_t k = 0; k < after.size(); k++) {
        std::printf(" %u (%.2f)", static_cast<unsigned>(after[k]), probabilities[k]);
    }
    std::printf("\n");
    // A test runs this program: a class of 200 is guessed with an error of 0.995.
    return before == after && measured.measures.error < 0.1 && searched.recall[4] > 0.5 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        return host(argc > 1 ? argv[1] : "cpp_host.safetensors");
    } catch (const xsoftmax::error &failed) {
        std::fprintf(stderr, "%s: %s\n", xsm_status_name(failed.status()), failed.what());
    } catch (const std::exception &failed) {
        std::fprintf(stderr, "%s\n", failed.what());
    }
    return 1;
}
