// fork() with work on streams: the child is told what it has lost, can begin anew, and never hangs.
// Prints what failed; exit status 0 if nothing did.

#include <sys/wait.h>
#include <unistd.h>

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

int failures = 0;

#define EXPECT(condition)                                                                  \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      const char *said = aclGetRecentErrMsg();                                             \
      std::printf("line %d: %s (%s)\n", __LINE__, #condition, said ? said : "no message"); \
      failures++;                                                                          \
    }                                                                                      \
  } while (0)

const int64_t kSize = 1 << 17;
const size_t kBytes = kSize * sizeof(float);

aclrtStream stream, other;
aclrtEvent come, pending, waiting;
void *memory;
aclTensor *tensor;
aclOpExecutor *executor;

bool Says(const char *words) {
  const char *said = aclGetRecentErrMsg();
  if (said != nullptr && std::strstr(said, words) != nullptr) return true;
  std::printf("expected \"%s\" in \"%s\"\n", words, said ? said : "no message");
  return false;
}

void Fill(float value) {
  const std::vector<float> host(kSize, value);
  EXPECT(aclrtMemcpy(memory, kBytes, host.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);
}

void Prepare() {
  EXPECT(aclInit(nullptr) == ACL_SUCCESS);
  EXPECT(aclrtSetDevice(0) == ACL_SUCCESS);
  EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS && aclrtCreateStream(&other) == ACL_SUCCESS);
  for (aclrtEvent *event : {&come, &pending, &waiting}) EXPECT(aclrtCreateEvent(event) == ACL_SUCCESS);
  EXPECT(aclrtMalloc(&memory, kBytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  tensor = aclCreateTensor(&kSize, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &kSize, 1, memory);
  uint64_t size = 0;
  EXPECT(aclnnLogSigmoidBackwardGetWorkspaceSize(tensor, tensor, tensor, tensor, &size, &executor) ==
         ACL_SUCCESS);
  EXPECT(aclSetAclOpExecutorRepeatable(executor) == ACL_SUCCESS);
  Fill(1);
  EXPECT(aclrtRecordEvent(come, stream) == ACL_SUCCESS);
  EXPECT(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
}

// Work that is not done when fork() comes, on both streams and on the default one.
void Load() {
  for (int again = 0; again < 40; again++) {
    EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, stream) == ACL_SUCCESS);
  }
  EXPECT(aclrtRecordEvent(pending, stream) == ACL_SUCCESS);
  EXPECT(aclrtStreamWaitEvent(other, pending) == ACL_SUCCESS);
  EXPECT(aclrtRecordEvent(waiting, other) == ACL_SUCCESS);
  EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, nullptr) == ACL_SUCCESS);
}

void LostThings() {
  const char *device = "forked from the one that had it: expected aclrtSetDevice(0)";
  EXPECT(aclrtSynchronizeStream(stream) == ACL_ERROR_RT_CONTEXT_NULL && Says(device));
  EXPECT(aclrtSynchronizeStream(nullptr) == ACL_ERROR_RT_CONTEXT_NULL && Says(device));
  EXPECT(aclrtSynchronizeDevice() == ACL_ERROR_RT_CONTEXT_NULL && Says(device));
  EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, stream) == ACLNN_ERR_RUNTIME_ERROR && Says(device));
  EXPECT(aclrtSetDevice(0) == ACL_SUCCESS);
  const char *lost = "stream was lost in fork(), its thread stayed in the parent";
  for (aclrtStream one : {stream, other}) {
    EXPECT(aclrtSynchronizeStream(one) == ACL_ERROR_INVALID_RESOURCE_HANDLE && Says(lost));
    EXPECT(aclrtRecordEvent(come, one) == ACL_ERROR_INVALID_RESOURCE_HANDLE && Says(lost));
    EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, one) == ACLNN_ERR_PARAM_INVALID && Says(lost));
    EXPECT(aclrtMemsetAsync(memory, 8, 0, 8, one) == ACL_ERROR_INVALID_RESOURCE_HANDLE && Says(lost));
    EXPECT(aclrtDestroyStream(one) == ACL_ERROR_INVALID_RESOURCE_HANDLE && Says(lost));
  }
  const char *recorded = "was recorded on a stream that was lost in fork()";
  aclrtEventRecordedStatus status;
  float ms;
  EXPECT(aclrtSynchronizeEvent(waiting) == ACL_ERROR_INVALID_RESOURCE_HANDLE && Says(recorded));
  EXPECT(aclrtQueryEventStatus(waiting, &status) == ACL_ERROR_INVALID_RESOURCE_HANDLE && Says(recorded));
  EXPECT(aclrtEventElapsedTime(&ms, come, waiting) == ACL_ERROR_INVALID_RESOURCE_HANDLE && Says(recorded));
  EXPECT(aclrtStreamWaitEvent(nullptr, waiting) == ACL_ERROR_INVALID_RESOURCE_HANDLE && Says(recorded));
  EXPECT(aclrtSynchronizeEvent(come) == ACL_SUCCESS);
}

// Memory, tensors and executors are the child's own copies; new streams work on them.
void BeginAnew() {
  aclrtStream fresh;
  EXPECT(aclrtCreateStream(&fresh) == ACL_SUCCESS);
  for (aclrtStream on : {fresh, static_cast<aclrtStream>(nullptr)}) {
    Fill(1);
    EXPECT(aclnnLogSigmoidBackward(nullptr, 0, executor, on) == ACL_SUCCESS);
    EXPECT(aclrtRecordEvent(waiting, on) == ACL_SUCCESS);
    EXPECT(aclrtSynchronizeEvent(waiting) == ACL_SUCCESS);
    float last = 0;
    EXPECT(aclrtMemcpy(&last, 4, static_cast<char *>(memory) + kBytes - 4, 4, ACL_MEMCPY_DEVICE_TO_HOST) ==
           ACL_SUCCESS);
    EXPECT(std::fabs(last - 0.268941) < 1e-5);
  }
  EXPECT(aclrtDestroyStream(fresh) == ACL_SUCCESS);
  EXPECT(aclrtFree(memory) == ACL_SUCCESS);
  for (aclrtEvent event : {come, pending, waiting}) EXPECT(aclrtDestroyEvent(event) == ACL_SUCCESS);
  EXPECT(aclDestroyAclOpExecutor(executor) == ACL_SUCCESS && aclDestroyTensor(tensor) == ACL_SUCCESS);
  EXPECT(aclFinalize() == ACL_SUCCESS);
  EXPECT(aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
  EXPECT(aclFinalize() == ACL_SUCCESS);
}

int Child(bool begins) {
  alarm(60);
  failures = 0;
  if (begins) {
    LostThings();
    BeginAnew();
  } else {
    EXPECT(aclFinalize() == ACL_SUCCESS);
  }
  std::fflush(stdout);
  return failures;
}

void Fork(bool begins) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(Child(begins) ? 1 : 0);
  int status = -1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  if (status != 0) std::printf("child: status %#x, signal %d\n", status, status & 127);
  EXPECT(status == 0);
}

}  // namespace

int main() {
  alarm(120);
  Prepare();
  // A thread that is always inside the library when fork() comes.
  std::atomic<bool> ends{false};
  std::thread busy([&ends] {
    while (!ends) {
      uint64_t size = 0;
      aclOpExecutor *made = nullptr;
      aclnnLogSigmoidBackwardGetWorkspaceSize(tensor, tensor, tensor, tensor, &size, &made);
      aclDestroyAclOpExecutor(made);
    }
  });
  for (int round = 0; round < 4; round++) {
    Load();
    Fork(round % 2 == 0);
  }
  ends = true;
  busy.join();
  EXPECT(aclrtSynchronizeDevice() == ACL_SUCCESS);
  EXPECT(aclrtFree(memory) == ACL_SUCCESS);
  EXPECT(aclFinalize() == ACL_SUCCESS);
  std::printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
