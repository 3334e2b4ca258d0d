// Random calls of the C interface, valid and not, for the address and undefined-behaviour sanitizers.
//
//   acl_fuzz [STEPS [SEED]]   nothing may crash, nothing dead may work, nothing sound may fail
//   acl_fuzz freed            the planted fault: memory is read after aclrtFree
//
// Host memory that nobody checks (acl.md) is only given where it is large enough: all else is drawn.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_logsigmoid_backward.h"

namespace {

int failures = 0;

void Fail(const char *what, int line) {
  const char *said = aclGetRecentErrMsg();
  std::printf("line %d: %s (%s)\n", line, what, said ? said : "no message");
  failures++;
}

#define EXPECT(condition) \
  do {                    \
    if (!(condition)) Fail(#condition, __LINE__); \
  } while (0)

constexpr size_t kHost = 4096;
// Freed addresses that are tried again; the library knows more of them.
constexpr size_t kRemembered = 200;

class Fuzz {
 public:
  explicit Fuzz(unsigned seed) : random_(seed), host_(kHost) {}

  void Run(int steps) {
    Begin();
    for (int i = 0; i < steps; i++) {
      Step();
      calls_++;
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
    for (const auto &block : device_) EXPECT(aclrtFree(block.first) == ACL_SUCCESS);
    for (const auto &block : pinned_) EXPECT(aclrtFreeHost(block.first) == ACL_SUCCESS);
  }

  void Report(unsigned seed) const {
    std::printf("seed %u: %d calls, %d computations, %d copies, %d refusals\n", seed, calls_, computed_, copied_,
                refused_);
  }

  bool WasThorough() const { return computed_ > 0 && copied_ > 0 && refused_ > 0; }

 private:
  using Blocks = std::map<void *, size_t>;

  void Begin() {
    EXPECT(aclInit(nullptr) == ACL_SUCCESS);
    EXPECT(aclrtSetDevice(0) == ACL_SUCCESS);
  }

  // ---- drawing ----

  int64_t Below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }
  bool Chance(int percent) { return Below(100) < percent; }

  // A number that is mostly small and sometimes hostile.
  int64_t Number(int64_t most) {
    static const int64_t kHostile[] = {-1,        INT64_MIN,  INT64_MAX,           int64_t{1} << 40,
                                       int64_t{1} << 61, (int64_t{1} << 62) + 1};
    return Chance(3) ? kHostile[Below(6)] : Below(most + 1);
  }

  // Something that is no handle and no memory of this process, or an address of another kind.
  void *Junk() {
    static const uintptr_t kJunk[] = {0, 1, 64, 0x1a5e000000000010, 0x1a5e000000ffff00, UINTPTR_MAX - 15};
    switch (Below(4)) {
      case 0:
        return Of(streams_);
      case 1:
        return Of(tensors_);
      case 2:
        return freed_.empty() ? nullptr : freed_[static_cast<size_t>(Below(static_cast<int64_t>(freed_.size())))];
      default:
        return reinterpret_cast<void *>(kJunk[Below(6)]);
    }
  }

  void *Of(const std::vector<void *> &things) {
    return things.empty() ? nullptr : things[static_cast<size_t>(Below(static_cast<int64_t>(things.size())))];
  }

  void *Pick(const std::vector<void *> &alive) { return Chance(4) ? Junk() : Of(alive); }

  // The first byte of a block, mostly; `past` bytes after its end at most, where it would be foreign.
  void *Address(const Blocks &blocks, int64_t past = 8) {
    if (blocks.empty() || Chance(4)) return Junk();
    const auto found = std::next(blocks.begin(), static_cast<std::ptrdiff_t>(Below(static_cast<int64_t>(blocks.size()))));
    return static_cast<char *>(found->first) + (Chance(20) ? Below(static_cast<int64_t>(found->second) + past) : 0);
  }

  // ---- one call ----

  void Step() {
    switch (Below(20)) {
      case 0:
        return Allocate();
      case 1:
      case 2:
        return Free();
      case 3:
      case 4:
      case 5:
        return CreateTensor();
      case 6:
        return Destroy(&tensors_, [](void *t) { return aclDestroyTensor(static_cast<aclTensor *>(t)); }, 40);
      case 7:
      case 8:
      case 9:
      case 10:
        return FirstPhase();
      case 11:
      case 12:
      case 13:
        return SecondPhase();
      case 14:
      case 15:
        return Copy();
      case 16:
        return Fill();
      case 17:
        return Streams();
      case 18:
        return Events();
      default:
        return Rare();
    }
  }

  void Count(bool succeeded) { refused_ += !succeeded; }

  void Allocate() {
    void *data = nullptr;
    const size_t size = Chance(2) ? static_cast<size_t>(Number(8)) : static_cast<size_t>(1 + Below(Chance(5) ? 40000 : 1200));
    const bool device = Chance(80);
    const int status = device ? aclrtMalloc(&data, size, ACL_MEM_MALLOC_HUGE_FIRST) : aclrtMallocHost(&data, size);
    if (status == ACL_SUCCESS) (device ? device_ : pinned_)[data] = size;
    EXPECT((status == ACL_SUCCESS) == (data != nullptr));
  }

  void Free() {
    const bool device = Chance(70);
    Blocks &blocks = device ? device_ : pinned_;
    if (blocks.size() < 20 && !Chance(10)) return;
    void *data = Address(blocks);
    const bool sound = blocks.count(data) > 0;
    const int status = device ? aclrtFree(data) : aclrtFreeHost(data);
    EXPECT(sound || status != ACL_SUCCESS);
    EXPECT(!sound || status == ACL_SUCCESS || status == ACL_ERROR_RT_MEMORY_FREE);
    Count(status == ACL_SUCCESS);
    if (status != ACL_SUCCESS) return;
    blocks.erase(data);
    freed_.push_back(data);
    if (freed_.size() > kRemembered) freed_.erase(freed_.begin());
    EXPECT(device_.count(data) > 0 || aclrtFree(data) == ACL_ERROR_INVALID_PARAM);
  }

  void CreateTensor() {
    static const aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8};
    static const aclFormat kFormats[] = {ACL_FORMAT_NCHW, ACL_FORMAT_FRACTAL_NZ, ACL_FORMAT_UNDEFINED};
    int64_t shape[30], strides[30], step = 1;
    const bool usual = Chance(80);
    const uint64_t rank = usual ? usual_.size() : static_cast<uint64_t>(Below(Chance(5) ? 30 : 5));
    for (uint64_t d = 0; d < rank; d++) shape[d] = usual ? usual_[d] : Number(6);
    for (uint64_t d = rank; d-- > 0;) {
      strides[d] = Chance(95) ? step : Number(9);
      if (shape[d] > 0 && shape[d] < 100 && step < 10000) step *= shape[d];
    }
    const int64_t storage = Chance(90) ? 100 + Below(80) : Number(200);
    aclTensor *made = aclCreateTensor(shape, rank, kTypes[Chance(95) ? type_ : Below(4)],
                                      Chance(20) ? nullptr : strides, Chance(70) ? 0 : Number(8),
                                      Chance(96) ? ACL_FORMAT_ND : kFormats[Below(3)], &storage, 1, Address(device_));
    if (made != nullptr) tensors_.push_back(made);
    Count(made != nullptr);
  }

  template <typename Call>
  void Destroy(std::vector<void *> *alive, Call call, size_t most) {
    if (alive->size() < most && !Chance(20)) return;
    void *handle = Pick(*alive);
    bool sound = false;
    for (size_t i = 0; i < alive->size() && !sound; i++) {
      if ((*alive)[i] == handle) {
        sound = true;
        alive->erase(alive->begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    const int status = call(handle);
    EXPECT((status == 0) == sound);
    EXPECT(call(handle) != 0);
    Count(sound);
  }

  void FirstPhase() {
    uint64_t size = 77;
    aclOpExecutor *executor = nullptr;
    aclTensor *tensors[4];
    for (aclTensor *&tensor : tensors) tensor = static_cast<aclTensor *>(Pick(tensors_));
    if (Chance(70)) tensors[1] = tensors[2] = tensors[0];
    const int status = aclnnLogSigmoidBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], tensors[3],
                                                               Chance(1) ? nullptr : &size, &executor);
    EXPECT((status == ACLNN_SUCCESS) == (executor != nullptr));
    EXPECT(status == ACLNN_SUCCESS || status == ACLNN_ERR_PARAM_NULLPTR || status == ACLNN_ERR_PARAM_INVALID);
    Count(status == ACLNN_SUCCESS);
    if (status != ACLNN_SUCCESS) return;
    if (Chance(30)) EXPECT(aclSetAclOpExecutorRepeatable(executor) == ACLNN_SUCCESS);
    executors_.push_back(executor);
    sizes_[executor] = size;
  }

  void SecondPhase() {
    void *handle = Pick(executors_);
    const uint64_t size = Chance(90) && sizes_.count(handle) > 0 ? sizes_[handle] : static_cast<uint64_t>(Number(500));
    const int status = aclnnLogSigmoidBackward(size > 0 || Chance(10) ? Address(device_) : nullptr, size,
                                               static_cast<aclOpExecutor *>(handle), Stream());
    Count(status == ACLNN_SUCCESS);
    if (status == ACLNN_SUCCESS) {
      EXPECT(sizes_.count(handle) > 0);
      computed_++;
    }
  }

  void *Stream() { return Chance(15) ? nullptr : Pick(streams_); }

  void Copy() {
    const auto kind = static_cast<aclrtMemcpyKind>(Chance(3) ? Number(9) % 100 : Below(5));
    // One end is host memory of this program: as much as there is, and no more.
    const bool hosts = Chance(50), to_host = Chance(50);
    const size_t count = hosts ? static_cast<size_t>(Below(static_cast<int64_t>(kHost) + 1)) % (Chance(80) ? 300 : kHost)
                               : static_cast<size_t>(Number(Chance(80) ? 200 : 900));
    void *to = hosts && to_host ? host_.data() : Address(Chance(80) ? device_ : pinned_, 0);
    const void *from = hosts && !to_host ? host_.data() : Address(Chance(80) ? device_ : pinned_, 0);
    const size_t most = Chance(90) ? count : static_cast<size_t>(Number(500));
    const int status = Chance(50) ? aclrtMemcpy(to, most, from, count, kind)
                                  : aclrtMemcpyAsync(to, most, from, count, kind, Stream());
    copied_ += status == ACL_SUCCESS;
    EXPECT(status != ACL_SUCCESS || count <= most);
    Count(status == ACL_SUCCESS);
  }

  void Fill() {
    void *to = Address(Chance(90) ? device_ : pinned_);
    const size_t count = static_cast<size_t>(Number(300)), most = Chance(90) ? count : static_cast<size_t>(Number(300));
    const int value = static_cast<int>(Below(300));
    const int status =
        Chance(50) ? aclrtMemset(to, most, value, count) : aclrtMemsetAsync(to, most, value, count, Stream());
    Count(status == ACL_SUCCESS);
  }

  void Streams() {
    if (streams_.size() < 3) {
      aclrtStream made = nullptr;
      EXPECT(aclrtCreateStream(&made) == ACL_SUCCESS);
      streams_.push_back(made);
    } else if (Chance(30)) {
      Destroy(&streams_, [](void *s) { return aclrtDestroyStream(s); }, 3);
    } else {
      Count(aclrtSynchronizeStream(Stream()) == ACL_SUCCESS);
    }
  }

  void Events() {
    float ms = 0;
    aclrtEventRecordedStatus recorded;
    aclrtEvent made = nullptr;
    switch (events_.size() < 2 ? 0 : Below(7)) {
      case 0:
        EXPECT(aclrtCreateEvent(&made) == ACL_SUCCESS);
        events_.push_back(made);
        return;
      case 1:
        return Destroy(&events_, [](void *e) { return aclrtDestroyEvent(e); }, 5);
      case 2:
      case 3:
        return Count(aclrtRecordEvent(Pick(events_), Stream()) == ACL_SUCCESS);
      case 4:
        return Count(aclrtStreamWaitEvent(Stream(), Pick(events_)) == ACL_SUCCESS);
      case 5:
        return Count(aclrtSynchronizeEvent(Pick(events_)) == ACL_SUCCESS);
      default:
        Count(aclrtQueryEventStatus(Pick(events_), &recorded) == ACL_SUCCESS);
        return Count(aclrtEventElapsedTime(&ms, Pick(events_), Pick(events_)) == ACL_SUCCESS);
    }
  }

  void Rare() {
    int64_t *numbers = nullptr;
    uint64_t count = 0;
    switch (Below(6)) {
      case 0:
        if (!Chance(10)) return;
        type_ = Below(3);
        usual_.assign(1 + static_cast<size_t>(Below(3)), 1 + Below(5));
        return;
      case 1:
        EXPECT(aclrtSynchronizeDevice() == ACL_SUCCESS);
        return;
      case 2:
        if (aclGetViewStrides(static_cast<aclTensor *>(Pick(tensors_)), &numbers, &count) == ACLNN_SUCCESS) {
          delete[] numbers;
        }
        return;
      case 3:
        if (executors_.size() > 60) executors_.erase(executors_.begin(), executors_.begin() + 30);
        return Count(aclDestroyAclOpExecutor(static_cast<aclOpExecutor *>(Pick(executors_))) == ACLNN_SUCCESS);
      case 4:
        if (!Chance(5)) return;
        // All handles are dead after this, and memory stays.
        EXPECT(aclFinalize() == ACL_SUCCESS);
        EXPECT(Of(tensors_) == nullptr || aclDestroyTensor(static_cast<aclTensor *>(Of(tensors_))) != 0);
        for (auto *handles : {&tensors_, &executors_, &streams_, &events_, &freed_}) handles->clear();
        return Begin();
      default:
        EXPECT(std::strlen(Said().c_str()) < 1024);
    }
  }

  static std::string Said() {
    const char *said = aclGetRecentErrMsg();
    return said ? said : "";
  }

  std::mt19937 random_;
  std::vector<char> host_;
  Blocks device_, pinned_;
  std::vector<void *> tensors_, executors_, streams_, events_, freed_;
  std::map<void *, uint64_t> sizes_;
  // What most tensors are, so that some of them fit together.
  int64_t type_ = 0;
  std::vector<int64_t> usual_{3, 4};
  int calls_ = 0, computed_ = 0, copied_ = 0, refused_ = 0;
};

// A program that follows a device's address after it gave it back.
int TouchFreed() {
  void *data = nullptr;
  if (aclInit(nullptr) != 0 || aclrtSetDevice(0) != 0) return 3;
  if (aclrtMalloc(&data, 100, ACL_MEM_MALLOC_NORMAL_ONLY) != 0 || aclrtFree(data) != 0) return 3;
  std::printf("%d\n", static_cast<volatile char *>(data)[50]);
  return 0;
}

}  // namespace

int main(int count, char **words) {
  if (count > 1 && std::strcmp(words[1], "freed") == 0) return TouchFreed();
  const int steps = count > 1 ? std::atoi(words[1]) : 20000;
  const unsigned first = count > 2 ? static_cast<unsigned>(std::atoi(words[2])) : 1;
  for (unsigned seed = first; seed < first + (count > 2 ? 1 : 5); seed++) {
    Fuzz fuzz(seed);
    fuzz.Run(steps);
    fuzz.Report(seed);
    EXPECT(fuzz.WasThorough());
  }
  std::printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
