// A fake of NVIDIA's management library, for UCX, which starts it beside the driver: it starts, and knows no device.
// Names, numbers and signatures are those of NVIDIA's public documentation ("NVML API Reference").

#define NVML_FAKE extern "C" __attribute__((visibility("default")))

namespace {

using nvmlReturn = int;
constexpr nvmlReturn kSuccess = 0;
constexpr nvmlReturn kNotSupported = 3;

}  // namespace

NVML_FAKE nvmlReturn nvmlInit_v2() { return kSuccess; }
NVML_FAKE nvmlReturn nvmlShutdown() { return kSuccess; }
NVML_FAKE const char* nvmlErrorString(nvmlReturn result) {
  return result == kSuccess ? "success" : "the NVML fake doesn't have this";
}
NVML_FAKE nvmlReturn nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 0;
  return kSuccess;
}
NVML_FAKE nvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned, void**) { return kNotSupported; }
NVML_FAKE nvmlReturn nvmlDeviceGetPciInfo_v3(void*, void*) { return kNotSupported; }
NVML_FAKE nvmlReturn nvmlDeviceGetFieldValues(void*, int, void*) { return kNotSupported; }
NVML_FAKE nvmlReturn nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) { return kNotSupported; }
NVML_FAKE nvmlReturn nvmlDeviceGetGpuFabricInfo(void*, void*) { return kNotSupported; }
NVML_FAKE nvmlReturn nvmlDeviceGetGpuFabricInfoV(void*, void*) { return kNotSupported; }
