// A fake of the functions of the CUDA driver that grading uses, without a GPU. Device memory is a memfd, which another
// process can map like exported device memory.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long Pointer;

int cuInit(unsigned flags) { return flags != 0; }
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal != 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = (void*)0x1234;
  return device != 0;
}
int cuCtxSetCurrent(void* context) { return context != (void*)0x1234; }
int cuCtxSynchronize(void) { return 0; }
int cuCtxResetPersistingL2Cache(void) { return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = 1 << 20;
  return attribute != 38 || device != 0;
}
int cuGetErrorName(int error, const char** name) {
  *name = error == 1 ? "CUDA_ERROR_INVALID_VALUE" : 0;
  return 0;
}

int cuMemGetAllocationGranularity(size_t* grain, const int* wanted, int option) {
  *grain = 2 << 20;
  return wanted[0] != 1 || wanted[1] != 1 || wanted[2] != 1 || option != 0;
}
int cuMemCreate(Pointer* handle, size_t size, const int* wanted, Pointer flags) {
  if (size % (2 << 20) || wanted[3] != 0 || flags) return 1;
  *handle = memfd_create("device", 0);
  return ftruncate((int)*handle, (off_t)size) != 0;
}
int cuMemExportToShareableHandle(int* out, Pointer handle, int kind, Pointer flags) {
  *out = dup((int)handle);
  return kind != 1 || flags != 0;
}
int cuMemImportFromShareableHandle(Pointer* handle, void* descriptor, int kind) {
  *handle = (Pointer)dup((int)(intptr_t)descriptor);
  return kind != 1;
}
int cuMemAddressReserve(Pointer* address, size_t size, size_t alignment, Pointer at, Pointer flags) {
  *address = (Pointer)mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return alignment || at || flags || *address == (Pointer)MAP_FAILED;
}
int cuMemMap(Pointer address, size_t size, size_t offset, Pointer handle, Pointer flags) {
  return flags || mmap((void*)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)handle, (off_t)offset) == MAP_FAILED;
}
int cuMemSetAccess(Pointer address, size_t size, const int* access, size_t count) {
  return count != 1 || access[0] != 1 || access[2] != 3 || mprotect((void*)address, size, PROT_READ | PROT_WRITE);
}
int cuMemUnmap(Pointer address, size_t size) { return munmap((void*)address, size); }
int cuMemAddressFree(Pointer address, size_t size) { return !address || !size; }
int cuMemRelease(Pointer handle) { return close((int)handle); }

int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  *free_bytes = *total = (size_t)8 << 30;
  return 0;
}
int cuMemAlloc_v2(Pointer* address, size_t size) { return (*address = (Pointer)malloc(size)) == 0; }
int cuMemFree_v2(Pointer address) {
  free((void*)address);
  return 0;
}
int cuMemAllocHost_v2(void** address, size_t size) { return (*address = malloc(size)) == 0; }
int cuMemFreeHost(void* address) {
  free(address);
  return 0;
}
int cuMemcpyHtoD_v2(Pointer to, const void* from, size_t size) {
  memcpy((void*)to, from, size);
  return 0;
}
int cuMemcpyDtoH_v2(void* to, Pointer from, size_t size) {
  memcpy(to, (void*)from, size);
  return 0;
}
int cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t size) {
  memcpy((void*)to, (void*)from, size);
  return 0;
}
int cuMemsetD32_v2(Pointer to, unsigned bits, size_t count) {
  for (size_t i = 0; i < count; ++i) ((unsigned*)to)[i] = bits;
  return 0;
}

int cuEventCreate(void** event, unsigned flags) { return flags || !(*event = malloc(sizeof(struct timespec))); }
int cuEventRecord(void* event, void* stream) { return stream || clock_gettime(CLOCK_MONOTONIC, event); }
int cuEventSynchronize(void* event) { return !event; }
int cuEventElapsedTime(float* milliseconds, const void* from, const void* to) {
  const struct timespec *a = from, *b = to;
  *milliseconds = (float)(1e3 * (double)(b->tv_sec - a->tv_sec) + 1e-6 * (double)(b->tv_nsec - a->tv_nsec));
  return 0;
}
int cuEventDestroy_v2(void* event) {
  free(event);
  return 0;
}
