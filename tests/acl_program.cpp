// Streams, events, host threads and misuse through the C interface, for the sanitizers to watch.
// Prints what failed; exit status 0 if nothing did.

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_logsigmoid_backward.h"

namespace {

std::atomic<int> failures{0};

#define EXPECT(condition)                                              \
  do {                                                                 \
    if (!(condition)) {                                                \
      const char *said = aclGetRecentErrMsg();                         \
      std::printf("line %d: %s (%s)\n", __LINE__, #condition, said ? said : "no message"); \
      failures++;                                                      \
    }                                                                  \
  } while (0)

// A contiguous vector of floats on the device.
struct Vector {
  void *data = nullptr;
  aclTensor *tensor = nullptr;
  int64_t size;

  explicit Vector(int64_t n) : size(n) {
    const int64_t stride = 1;
    EXPECT(aclrtMalloc(&data, Bytes(), ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    tensor = aclCreateTensor(&size, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &size, 1, data);
    EXPECT(tensor != nullptr);
  }
  ~Vector() {
    EXPECT(aclDestroyTensor(tensor) == ACL_SUCCESS);
    EXPECT(aclrtFree(data) == ACL_SUCCESS);
  }
  Vector(const Vector &) = delete;
  Vector &operator=(const Vector &) = delete;

  size_t Bytes() const { return static_cast<size_t>(size) * sizeof(float); }
  void Set(float value) {
    const std::vector<float> host(static_cast<size_t>(size), value);
    EXPECT(aclrtMemcpy(data, Bytes(), host.data(), Bytes(), ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);
  }
  // Whether every element is close to a value.
  bool Is(double value) const {
    std::vector<float> host(static_cast<size_t>(size));
    EXPECT(aclrtMemcpy(host.data(), Bytes(), data, Bytes(), ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
    for (float found : host) {
      if (std::fabs(found - value) > 1e-6 * std::fabs(value)) return false;
    }
    return true;
  }
};

double Right(double g, double x) { return g / (1 + std::exp(x)); }

aclOpExecutor *Phase(const Vector &g, const Vector &x, const Vector &y) {
  uint64_t size = 1;
  aclOpExecutor *executor = nullptr;
  EXPECT(aclnnLogSigmoidBackwardGetWorkspaceSize(g.tensor, x.tensor, x.tensor, y.tensor, &size, &executor) ==
         ACL_SUCCESS);
  EXPECT(size == 0);
  return executor;
}

// Results of a chain on one stream: each step needs the one before it.
void InOrder() {
  aclrtStream stream;
  EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
  {
    Vector g(50000), x(50000), y(50000);
    g.Set(8);
    x.Set(1);
    double right = 8;
    for (int step = 0; step < 4; step++) {
      EXPECT(aclnnLogSigmoidBackward(nullptr, 0, Phase(g, x, y), stream) == ACL_SUCCESS);
      EXPECT(aclrtMemcpyAsync(g.data, g.Bytes(), y.data, y.Bytes(), ACL_MEMCPY_DEVICE_TO_DEVICE, stream) ==
             ACL_SUCCESS);
      right = Right(right, 1);
    }
    EXPECT(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    EXPECT(g.Is(right));
    EXPECT(aclrtMemsetAsync(g.data, g.Bytes(), 0, g.Bytes(), stream) == ACL_SUCCESS);
    EXPECT(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    EXPECT(g.Is(0));
  }
  EXPECT(aclrtDestroyStream(stream) == ACL_SUCCESS);
}

// One stream waits for an event of another.
void AcrossStreams() {
  aclrtStream first, second;
  aclrtEvent start, middle, end;
  EXPECT(aclrtCreateStream(&first) == ACL_SUCCESS && aclrtCreateStream(&second) == ACL_SUCCESS);
  for (aclrtEvent *event : {&start, &middle, &end}) EXPECT(aclrtCreateEvent(event) == ACL_SUCCESS);
  {
    Vector g(60000), x(60000), y(60000), z(60000);
    g.Set(4);
    x.Set(-2);
    EXPECT(aclrtRecordEvent(start, first) == ACL_SUCCESS);
    EXPECT(aclnnLogSigmoidBackward(nullptr, 0, Phase(g, x, y), first) == ACL_SUCCESS);
    EXPECT(aclrtRecordEvent(middle, first) == ACL_SUCCESS);
    EXPECT(aclrtStreamWaitEvent(second, middle) == ACL_SUCCESS);
    EXPECT(aclnnLogSigmoidBackward(nullptr, 0, Phase(y, x, z), second) == ACL_SUCCESS);
    EXPECT(aclrtRecordEvent(end, second) == ACL_SUCCESS);
    EXPECT(aclrtSynchronizeEvent(end) == ACL_SUCCESS);
    EXPECT(z.Is(Right(Right(4, -2), -2)));
    float whole = -1, part = -1;
    EXPECT(aclrtEventElapsedTime(&whole, start, end) == ACL_SUCCESS);
    EXPECT(aclrtEventElapsedTime(&part, start, middle) == ACL_SUCCESS);
    EXPECT(whole >= part && part > 0);
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    EXPECT(aclrtQueryEventStatus(middle, &status) == ACL_SUCCESS);
    EXPECT(status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
  }
  for (aclrtEvent event : {start, middle, end}) EXPECT(aclrtDestroyEvent(event) == ACL_SUCCESS);
  EXPECT(aclrtDestroyStream(first) == ACL_SUCCESS && aclrtDestroyStream(second) == ACL_SUCCESS);
}

// A stream may be destroyed with work on it: the work is done first.
void DestroyedWithWork() {
  aclrtStream stream;
  EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
  Vector g(100000), x(100000), y(100000);
  g.Set(1);
  x.Set(3);
  EXPECT(aclnnLogSigmoidBackward(nullptr, 0, Phase(g, x, y), stream) == ACL_SUCCESS);
  EXPECT(aclrtDestroyStream(stream) == ACL_SUCCESS);
  EXPECT(y.Is(Right(1, 3)));
}

// What one host thread does beside others: its own stream, memory and messages.
void Worker(int number) {
  aclrtStream stream;
  EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
  for (int round = 0; round < 5; round++) {
    const double x_value = number + round * 0.25;
    Vector g(20000), x(20000), y(20000);
    g.Set(2);
    x.Set(static_cast<float>(x_value));
    aclOpExecutor *executor = Phase(g, x, y);
    EXPECT(aclSetAclOpExecutorRepeatable(executor) == ACL_SUCCESS);
    for (int again = 0; again < 3; again++) {
      EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, stream) == ACL_SUCCESS);
    }
    EXPECT(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    EXPECT(y.Is(Right(2, x_value)));
    EXPECT(aclDestroyAclOpExecutor(executor) == ACL_SUCCESS);
    EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, stream) == ACLNN_ERR_PARAM_INVALID);
    const char *said = aclGetRecentErrMsg();
    EXPECT(said != nullptr && std::strstr(said, "executor was destroyed") != nullptr);
  }
  EXPECT(aclrtDestroyStream(stream) == ACL_SUCCESS);
}

void HostThreads() {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; number++) threads.emplace_back(Worker, number);
  for (std::thread &thread : threads) thread.join();
}

// Several host threads put work on one stream, and on the default one.
void SharedStream() {
  aclrtStream shared;
  EXPECT(aclrtCreateStream(&shared) == ACL_SUCCESS);
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; number++) {
    threads.emplace_back([shared, number] {
      Vector g(5000), x(5000), y(5000);
      g.Set(1);
      x.Set(static_cast<float>(number));
      const aclrtStream stream = number == 2 ? nullptr : shared;
      EXPECT(aclnnLogSigmoidBackward(nullptr, 0, Phase(g, x, y), stream) == ACL_SUCCESS);
      EXPECT(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
      EXPECT(y.Is(Right(1, number)));
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT(aclrtSynchronizeDevice() == ACL_SUCCESS);
  EXPECT(aclrtDestroyStream(shared) == ACL_SUCCESS);
}

// Two threads destroy the same things at once: one of them succeeds, and nobody crashes.
void DestroyedTwiceAtOnce() {
  for (int round = 0; round < 20; round++) {
    const int64_t none = 0;
    aclTensor *tensor = aclCreateTensor(&none, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &none, 1, nullptr);
    aclrtStream stream;
    void *data = nullptr;
    EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
    EXPECT(aclrtMalloc(&data, 64, ACL_MEM_MALLOC_NORMAL_ONLY) == ACL_SUCCESS);
    std::atomic<int> done{0};
    auto destroy = [&] {
      done += aclDestroyTensor(tensor) == ACL_SUCCESS;
      done += aclrtDestroyStream(stream) == ACL_SUCCESS;
      done += aclrtFree(data) == ACL_SUCCESS;
    };
    std::thread other(destroy);
    destroy();
    other.join();
    EXPECT(done == 3);
  }
}

void Misuse() {
  aclrtStream stream;
  EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
  Vector g(100), x(100), y(100);
  aclOpExecutor *executor = Phase(g, x, y);
  EXPECT(aclnnLogSigmoidBackward(nullptr, 64, executor, stream) == ACLNN_ERR_PARAM_NULLPTR);
  char host[64] = {0};
  EXPECT(aclnnLogSigmoidBackward(host, 64, executor, stream) == ACLNN_ERR_PARAM_INVALID);
  EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, host) == ACLNN_ERR_PARAM_INVALID);
  EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, stream) == ACL_SUCCESS);
  EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, stream) == ACLNN_ERR_PARAM_INVALID);
  EXPECT(aclrtFree(y.data) == ACL_ERROR_RT_MEMORY_FREE);
  EXPECT(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
  EXPECT(aclrtMemcpy(y.data, 1000, host, 401, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_ERROR_INVALID_PARAM);
  EXPECT(aclrtMemset(y.data, 400, 1, 401) == ACL_ERROR_INVALID_PARAM);
  EXPECT(aclrtFree(host) == ACL_ERROR_INVALID_PARAM);
  EXPECT(aclDestroyTensor(reinterpret_cast<aclTensor *>(host)) == ACLNN_ERR_PARAM_INVALID);
  EXPECT(aclrtDestroyStream(stream) == ACL_SUCCESS);
  EXPECT(aclrtDestroyStream(stream) == ACL_ERROR_INVALID_RESOURCE_HANDLE);
}

void Description() {
  const int64_t shape[] = {2, 3}, strides[] = {7, 2}, storage = 40;
  aclTensor *tensor = aclCreateTensor(shape, 2, ACL_BF16, strides, 5, ACL_FORMAT_ND, &storage, 1, nullptr);
  int64_t *numbers = nullptr;
  uint64_t count = 0;
  EXPECT(aclGetViewStrides(tensor, &numbers, &count) == ACL_SUCCESS);
  EXPECT(count == 2 && numbers[0] == 7 && numbers[1] == 2);
  delete[] numbers;
  EXPECT(aclGetStorageShape(tensor, &numbers, &count) == ACL_SUCCESS);
  EXPECT(count == 1 && numbers[0] == 40);
  delete[] numbers;
  EXPECT(aclDestroyTensor(tensor) == ACL_SUCCESS);
}

}  // namespace

int main() {
  for (int life = 0; life < 2; life++) {
    EXPECT(aclInit(nullptr) == ACL_SUCCESS);
    EXPECT(aclrtSetDevice(0) == ACL_SUCCESS);
    InOrder();
    AcrossStreams();
    DestroyedWithWork();
    HostThreads();
    SharedStream();
    DestroyedTwiceAtOnce();
    Misuse();
    Description();
    EXPECT(aclrtResetDevice(0) == ACL_SUCCESS);
    EXPECT(aclFinalize() == ACL_SUCCESS);
  }
  std::printf("%d failures\n", failures.load());
  return failures ? 1 : 0;
}
