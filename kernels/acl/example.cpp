// LogSigmoid backward through the operator's C interface: strided views of fp32, fp16 and bf16.
//
//   g++ example.cpp $(lsbench acl --cflags --libs --rpath) -o example && ./example
//
// One matrix of 3 rows and 4 columns is the input; the operator sees it transposed, and every second
// column of it, without a copy. Exit status 0 if every result is right to an ulp of its type.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_logsigmoid_backward.h"

namespace {

// A 16-bit pattern of each type from a float whose lower bits are zero, and back.
uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

float FromBf16(uint16_t pattern) {
  const uint32_t bits = static_cast<uint32_t>(pattern) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint16_t ToFp16(float value) {
  int exponent;
  const float significand = std::frexp(std::fabs(value), &exponent);
  const auto magnitude = static_cast<uint32_t>(std::ldexp(significand, 11)) - 1024;
  const auto sign = std::signbit(value) ? 0x8000u : 0u;
  return static_cast<uint16_t>(value == 0 ? sign : sign | static_cast<uint32_t>(exponent + 14) << 10 | magnitude);
}

float FromFp16(uint16_t pattern) {
  const int exponent = pattern >> 10 & 31, fraction = pattern & 1023;
  const float magnitude = exponent ? std::ldexp(1024.0f + static_cast<float>(fraction), exponent - 25)
                                   : std::ldexp(static_cast<float>(fraction), -24);
  return pattern & 0x8000 ? -magnitude : magnitude;
}

struct Type {
  const char *name;
  aclDataType type;
  size_t size;
  double ulp;  // of a number in [1, 2)
};

const Type kTypes[] = {
    {"fp32", ACL_FLOAT, 4, 1.0 / (1 << 23)}, {"fp16", ACL_FLOAT16, 2, 1.0 / (1 << 10)}, {"bf16", ACL_BF16, 2, 1.0 / (1 << 7)}};

void Put(const Type &type, void *data, int64_t index, float value) {
  if (type.type == ACL_FLOAT) {
    static_cast<float *>(data)[index] = value;
  } else {
    static_cast<uint16_t *>(data)[index] = type.type == ACL_FLOAT16 ? ToFp16(value) : ToBf16(value);
  }
}

float Get(const Type &type, const void *data, int64_t index) {
  if (type.type == ACL_FLOAT) return static_cast<const float *>(data)[index];
  const uint16_t pattern = static_cast<const uint16_t *>(data)[index];
  return type.type == ACL_FLOAT16 ? FromFp16(pattern) : FromBf16(pattern);
}

// Say what failed, in the library's words.
bool Done(int status, const char *what) {
  if (status == ACL_SUCCESS) return true;
  const char *message = aclGetRecentErrMsg();
  std::printf("%s: %d: %s\n", what, status, message ? message : "");
  return false;
}

struct Layout {
  const char *name;
  std::vector<int64_t> shape, strides;
  int64_t offset;
};

// Views of a matrix of 3 rows and 4 columns, row after row.
const Layout kLayouts[] = {
    {"contiguous", {3, 4}, {4, 1}, 0},
    {"transposed", {4, 3}, {1, 4}, 0},
    {"every second column, from the second", {3, 2}, {4, 2}, 1},
    {"one row for all", {2, 4}, {0, 1}, 8},
};
const int64_t kStorage = 12;

// Device memory that holds one element type.
class Memory {
 public:
  Memory(const Type &type, int64_t count) : bytes_(static_cast<size_t>(count) * type.size) {
    Done(aclrtMalloc(&data_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
  }
  ~Memory() { Done(aclrtFree(data_), "aclrtFree"); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  void Upload(const void *host) {
    Done(aclrtMemcpy(data_, bytes_, host, bytes_, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy to the device");
  }
  void Download(void *host) const {
    Done(aclrtMemcpy(host, bytes_, data_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy to the host");
  }
  aclTensor *View(const Type &type, const Layout &layout) const {
    return aclCreateTensor(layout.shape.data(), layout.shape.size(), type.type, layout.strides.data(),
                           layout.offset, ACL_FORMAT_ND, &kStorage, 1, data_);
  }

 private:
  void *data_ = nullptr;
  size_t bytes_;
};

Layout Contiguous(const Layout &layout) {
  return {"contiguous", layout.shape, {layout.shape[1], 1}, 0};
}

bool Compute(const Type &type, const Layout &layout, aclrtStream stream, std::vector<char> *result,
             const std::vector<char> &g, const std::vector<char> &x) {
  Memory grad_output(type, kStorage), self(type, kStorage), grad_input(type, kStorage);
  grad_output.Upload(g.data());
  self.Upload(x.data());
  aclTensor *tensors[] = {grad_output.View(type, layout), self.View(type, layout), self.View(type, layout),
                          grad_input.View(type, Contiguous(layout))};
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  void *workspace = nullptr;
  bool good = Done(aclnnLogSigmoidBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], tensors[3],
                                                           &size, &executor),
                   "the first phase");
  if (good && size > 0) good = Done(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST), "workspace");
  good = good && Done(aclnnLogSigmoidBackward(workspace, size, executor, stream), "the second phase") &&
         Done(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
  if (good) grad_input.Download(result->data());
  if (workspace) Done(aclrtFree(workspace), "aclrtFree");
  for (aclTensor *tensor : tensors) Done(aclDestroyTensor(tensor), "aclDestroyTensor");
  return good;
}

bool Try(const Type &type, const Layout &layout, aclrtStream stream) {
  std::vector<char> g(kStorage * type.size), x(g), y(g);
  for (int64_t i = 0; i < kStorage; i++) {
    Put(type, g.data(), i, i % 2 ? -1.5f : 1.0f);
    Put(type, x.data(), i, static_cast<float>(i) - 5.0f);
  }
  if (!Compute(type, layout, stream, &y, g, x)) return false;
  bool good = true;
  for (int64_t row = 0; row < layout.shape[0]; row++) {
    for (int64_t column = 0; column < layout.shape[1]; column++) {
      const int64_t at = layout.offset + row * layout.strides[0] + column * layout.strides[1];
      const double right = Get(type, g.data(), at) / (1 + std::exp(static_cast<double>(Get(type, x.data(), at))));
      const float found = Get(type, y.data(), row * layout.shape[1] + column);
      good = good && std::fabs(found - right) <= type.ulp * std::fabs(right);
    }
  }
  std::printf("%s %s: %s, first %g\n", type.name, layout.name, good ? "right" : "WRONG",
              static_cast<double>(Get(type, y.data(), 0)));
  return good;
}

}  // namespace

int main() {
  aclrtStream stream;
  if (!Done(aclInit(nullptr), "aclInit") || !Done(aclrtSetDevice(0), "aclrtSetDevice") ||
      !Done(aclrtCreateStream(&stream), "aclrtCreateStream")) {
    return 1;
  }
  bool good = true;
  for (const Type &type : kTypes) {
    for (const Layout &layout : kLayouts) good = Try(type, layout, stream) && good;
  }
  good = Done(aclrtDestroyStream(stream), "aclrtDestroyStream") && good;
  good = Done(aclrtResetDevice(0), "aclrtResetDevice") && good;
  return Done(aclFinalize(), "aclFinalize") && good ? 0 : 1;
}
