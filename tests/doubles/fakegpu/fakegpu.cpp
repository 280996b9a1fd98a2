// An accelerator that computes nothing and takes its time: PyTorch's PrivateUse1 backend with virtual time.
//
// Every operation is computed at once, by the CPU, and then advances the ready time of the current stream by what it
// would have cost. Events, queries and synchronisations obey that clock, so the host runs ahead of this device as it
// does of a real one, and stalls where it would stall.

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pybind11/pybind11.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_set>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;
using std::int64_t;

constexpr auto kFake = DeviceType::PrivateUse1;
constexpr int kStreams = 34;  // 0 is the default one, 33 that of the pool

// What things cost; set from Python.
std::atomic<double> operation_us{30};
std::atomic<double> copy_gb_per_s{10};
std::atomic<double> pageable_factor{0.4};  // of the speed from pinned memory

std::array<std::atomic<int64_t>, kStreams> ready{};  // ns: when each stream will have done what it was given
std::atomic<int64_t> busy_ns{0}, operations{0}, stalls{0}, stalled_ns{0};
std::atomic<int64_t> bytes_now{0}, bytes_peak{0};
thread_local int current_stream = 0;
thread_local int nested = 0;  // inside an operation: what it calls is part of it

int64_t now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

void enqueue(double us, int stream) {
  const auto cost = static_cast<int64_t>(us * 1000);
  ready[stream] = std::max(ready[stream].load(), now()) + cost;
  busy_ns += cost;
  ++operations;
}

void wait_until(int64_t time) {
  ++stalls;
  const auto left = time - now();
  if (left > 0) {
    stalled_ns += left;
    std::this_thread::sleep_for(std::chrono::nanoseconds(left));
  }
}

// Memory: of the device, with a header that holds the size, and pinned, which is known by its address.

struct DeviceAllocator final : c10::DeviceAllocator {
  static constexpr size_t kHeader = 64;

  static void release(void* data) {
    if (data == nullptr) return;
    auto* block = static_cast<char*>(data) - kHeader;
    bytes_now -= *reinterpret_cast<int64_t*>(block);
    free(block);
  }

  c10::DataPtr allocate(size_t size) override {
    void* block = nullptr;
    if (posix_memalign(&block, kHeader, size + kHeader) != 0) throw std::bad_alloc();
    *static_cast<int64_t*>(block) = static_cast<int64_t>(size);
    bytes_now += static_cast<int64_t>(size);
    bytes_peak = std::max(bytes_peak.load(), bytes_now.load());
    void* data = static_cast<char*>(block) + kHeader;
    return {data, data, &release, Device(kFake, 0)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override { memcpy(to, from, size); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, Stream) override {}
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex) override { bytes_peak = bytes_now.load(); }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = bytes_now;
    stats.allocated_bytes[0].peak = bytes_peak;
    return stats;
  }
};

DeviceAllocator device_allocator;
REGISTER_ALLOCATOR(kFake, &device_allocator);

std::mutex pinned_lock;
std::unordered_set<const void*> pinned;

struct PinnedAllocator final : c10::Allocator {
  static void release(void* data) {
    if (data == nullptr) return;
    {
      std::lock_guard<std::mutex> guard(pinned_lock);
      pinned.erase(data);
    }
    free(data);
  }

  c10::DataPtr allocate(size_t size) override {
    void* data = nullptr;
    if (posix_memalign(&data, 64, std::max<size_t>(size, 1)) != 0) throw std::bad_alloc();
    std::lock_guard<std::mutex> guard(pinned_lock);
    pinned.insert(data);
    return {data, data, &release, Device(c10::kCPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override { memcpy(to, from, size); }
};

PinnedAllocator pinned_allocator;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex getCurrentDevice() const override { return 0; }
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  Device getDeviceFromPtr(void*) const override { return Device(kFake, 0); }

  bool isPinnedPtr(const void* data) const override {
    std::lock_guard<std::mutex> guard(pinned_lock);
    return pinned.count(data) > 0;
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    auto data = device_allocator.allocate(size);
    memcpy(data.get(), storage.data(), std::min(size, storage.nbytes()));
    auto* implementation = storage.unsafeGetStorageImpl();
    implementation->set_data_ptr(std::move(data));
    implementation->set_nbytes(size);
  }
};

// Streams and events.

struct Event {
  int64_t time = 0;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  Guard() = default;
  explicit Guard(DeviceType) {}
  DeviceType type() const override { return kFake; }
  Device exchangeDevice(Device) const override { return Device(kFake, 0); }
  Device getDevice() const override { return Device(kFake, 0); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  DeviceIndex deviceCount() const noexcept override { return 1; }

  static Stream stream(int id) { return Stream(Stream::UNSAFE, Device(kFake, 0), id); }
  Stream getStream(Device) const override { return stream(current_stream); }
  Stream getDefaultStream(Device) const override { return stream(0); }
  Stream getStreamFromGlobalPool(Device, bool) const override { return stream(kStreams - 1); }

  Stream getNewStream(Device, int) const override {
    static std::atomic<int> made{0};
    return stream(1 + made++ % (kStreams - 2));
  }

  Stream exchangeStream(Stream next) const override {
    const int before = current_stream;
    current_stream = static_cast<int>(next.id());
    return stream(before);
  }

  void record(void** event, const Stream& at, const DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->time = std::max(ready[at.id()].load(), now());
  }

  void block(void* event, const Stream& at) const override {
    if (event != nullptr) ready[at.id()] = std::max(ready[at.id()].load(), static_cast<Event*>(event)->time);
  }

  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<Event*>(event)->time <= now();
  }

  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }

  double elapsedTime(void* from, void* to, const DeviceIndex) const override {
    return static_cast<double>(static_cast<Event*>(to)->time - static_cast<Event*>(from)->time) / 1e6;
  }

  bool queryStream(const Stream& at) const override { return ready[at.id()] <= now(); }
  void synchronizeStream(const Stream& at) const override { wait_until(ready[at.id()]); }

  void synchronizeEvent(void* event) const override {
    if (event != nullptr) wait_until(static_cast<Event*>(event)->time);
  }

  void synchronizeDevice(const DeviceIndex) const override {
    int64_t last = 0;
    for (auto& stream_ready : ready) last = std::max(last, stream_ready.load());
    wait_until(last);
  }

  void recordDataPtrOnStream(const c10::DataPtr&, const Stream&) const override {}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// Operators: empty tensors and copies are ours, a few views are ATen's, all others are the CPU's.

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::ScalarType type_or_default(std::optional<at::ScalarType> type) {
  return type.value_or(c10::get_default_dtype_as_scalartype());
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &device_allocator, kKeys, type_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator, kKeys, type_or_default(type));
}

at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.is_privateuseone()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.dtype()).device(c10::kCPU));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (nested == 0) {
    const double bytes = static_cast<double>(to.numel() * to.element_size());
    if (from.is_privateuseone() && to.is_privateuseone()) {
      enqueue(2 + bytes / 1e6, current_stream);
    } else {
      const bool pageable = from.is_privateuseone() ? !to.is_pinned() : !from.is_pinned();
      const double speed = copy_gb_per_s * (pageable ? pageable_factor.load() : 1.0);
      enqueue(8 + bytes / (speed * 1e3), current_stream);
      if (pageable || !non_blocking) wait_until(ready[current_stream]);
    }
  }
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) const_cast<at::Tensor&>(to).resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar read_scalar(const at::Tensor& tensor) {
  if (nested == 0) wait_until(ready[current_stream]);
  return at::_local_scalar_dense(on_host(tensor));
}

at::Tensor& set_storage(at::Tensor& result, at::Storage storage, int64_t offset, at::IntArrayRef sizes,
                        at::IntArrayRef strides) {
  return at::cpu::set_(result, storage, offset, sizes, strides);
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat>) {
  auto* implementation = self.unsafeGetTensorImpl();
  implementation->set_sizes_contiguous(sizes);
  const auto items = implementation->storage_offset() + implementation->numel();
  const auto bytes = static_cast<size_t>(items) * implementation->itemsize();
  if (bytes > self.storage().nbytes()) at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
  return self;
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef sizes) { return at::native::view(self, sizes); }

void on_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  ++nested;
  try {
    at::native::cpu_fallback(operation, stack);
  } catch (...) {
    --nested;
    throw;
  }
  --nested;
  if (nested == 0) enqueue(operation_us, current_stream);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", read_scalar);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("resize_", resize);
  library.impl("view", view);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("_reshape_alias", at::native::_reshape_alias);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  module.def("set_costs", [](double operation, double gb_per_s, double pageable) {
    operation_us = operation;
    copy_gb_per_s = gb_per_s;
    pageable_factor = pageable;
  });
  module.def("launch", [](double us) { enqueue(us, current_stream); });
  module.def("busy_ns", [] { return busy_ns.load(); });
  module.def("operations", [] { return operations.load(); });
  module.def("stalls", [] { return stalls.load(); });
  module.def("stalled_ns", [] { return stalled_ns.load(); });
  module.def("lag_ns", [] { return std::max<int64_t>(0, ready[current_stream] - now()); });
}
