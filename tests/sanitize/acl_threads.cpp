// Host threads with a stream and events each, for the thread sanitizer.
//
//   acl_threads        results are right, whoever waits for whom
//   acl_threads race   the planted fault: memory is read before its stream was synchronized

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

#define EXPECT(condition)                                                                  \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      const char *said = aclGetRecentErrMsg();                                             \
      std::printf("line %d: %s (%s)\n", __LINE__, #condition, said ? said : "no message"); \
      failures++;                                                                          \
    }                                                                                      \
  } while (0)

constexpr int kThreads = 4, kRounds = 12;
constexpr int64_t kSize = 3000;
constexpr size_t kBytes = kSize * sizeof(float);

// Of each thread, recorded by it and waited for by its neighbour.
aclrtEvent done[kThreads];

void Work(int number) {
  aclrtStream stream;
  aclrtEvent start, end;
  EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
  EXPECT(aclrtCreateEvent(&start) == ACL_SUCCESS && aclrtCreateEvent(&end) == ACL_SUCCESS);
  for (int round = 0; round < kRounds; round++) {
    void *data = nullptr;
    EXPECT(aclrtMalloc(&data, kBytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    std::vector<float> host(kSize, static_cast<float>(number + 1));
    aclTensor *tensor = aclCreateTensor(&kSize, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &kSize, 1, data);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    EXPECT(aclnnLogSigmoidBackwardGetWorkspaceSize(tensor, tensor, tensor, tensor, &size, &executor) == ACL_SUCCESS);
    EXPECT(aclrtMemcpyAsync(data, kBytes, host.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream) == ACL_SUCCESS);
    EXPECT(aclrtRecordEvent(start, stream) == ACL_SUCCESS);
    EXPECT(aclrtStreamWaitEvent(stream, done[(number + 1) % kThreads]) == ACL_SUCCESS);
    EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, stream) == ACL_SUCCESS);
    EXPECT(aclrtRecordEvent(done[number], stream) == ACL_SUCCESS);
    EXPECT(aclrtRecordEvent(end, stream) == ACL_SUCCESS);
    EXPECT((round % 2 ? aclrtSynchronizeEvent(end) : aclrtSynchronizeStream(stream)) == ACL_SUCCESS);
    float ms = -1;
    EXPECT(aclrtEventElapsedTime(&ms, start, end) == ACL_SUCCESS && ms >= 0);
    EXPECT(aclrtMemcpy(host.data(), kBytes, data, kBytes, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
    const double x = number + 1, right = x / (1 + std::exp(x));
    EXPECT(std::fabs(host.front() - right) < 1e-6 * x && std::fabs(host.back() - right) < 1e-6 * x);
    EXPECT(aclDestroyTensor(tensor) == ACLNN_SUCCESS);
    EXPECT(aclrtFree(data) == ACL_SUCCESS);
  }
  EXPECT(aclrtDestroyEvent(start) == ACL_SUCCESS && aclrtDestroyEvent(end) == ACL_SUCCESS);
  EXPECT(aclrtDestroyStream(stream) == ACL_SUCCESS);
}

void Threads() {
  for (aclrtEvent &event : done) EXPECT(aclrtCreateEvent(&event) == ACL_SUCCESS);
  std::atomic<bool> ends{false};
  std::thread waits([&ends] {
    while (!ends) EXPECT(aclrtSynchronizeDevice() == ACL_SUCCESS);
  });
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; number++) threads.emplace_back(Work, number);
  for (std::thread &thread : threads) thread.join();
  ends = true;
  waits.join();
  for (aclrtEvent event : done) EXPECT(aclrtDestroyEvent(event) == ACL_SUCCESS);
}

void Race() {
  aclrtStream stream;
  void *data = nullptr;
  EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
  EXPECT(aclrtMalloc(&data, kBytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  EXPECT(aclrtMemsetAsync(data, kBytes, 1, kBytes, stream) == ACL_SUCCESS);
  std::printf("%d\n", static_cast<char *>(data)[kBytes - 1]);
  EXPECT(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
  EXPECT(aclrtFree(data) == ACL_SUCCESS);
}

}  // namespace

int main(int count, char **words) {
  EXPECT(aclInit(nullptr) == ACL_SUCCESS);
  EXPECT(aclrtSetDevice(0) == ACL_SUCCESS);
  if (count > 1 && std::strcmp(words[1], "race") == 0) {
    Race();
  } else {
    Threads();
  }
  EXPECT(aclFinalize() == ACL_SUCCESS);
  std::printf("%d failures\n", failures.load());
  return failures ? 1 : 0;
}
