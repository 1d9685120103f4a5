// Redirects librdmacm's calls of open, write, close and fstat to cm_device, by all names that these
// have had in glibc: for programs built with an older one, with 64-bit offsets, or fortified.
//
// Exporting such names would catch the calls of the whole program, and only where this library
// comes before libc in the search order (LD_PRELOAD). Instead the slots of librdmacm's own table of
// imported functions are rewritten: nothing else is touched, and it works however this library was
// loaded. librdmacm depends on libibverbs, so when it is loaded with the program our constructor
// finds it in place; when it is loaded later (a plug-in's dlopen), it asks for the devices and for
// sysfs files before it opens anything, and those calls hook it.

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "verbs_shim/cm/cm_device.h"

namespace uroce::shim {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // one thread at a time rewrites the slots

int hooked_open(const char* path, int flags, ...) {
  if (is_cm_device(path)) {
    return open_cm_channel();
  }
  std::va_list arguments;
  va_start(arguments, flags);
  const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const mode_t mode = makes ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open(path, flags, mode);
}

ssize_t hooked_write(int descriptor, const void* bytes, std::size_t length) {
  return is_cm_channel(descriptor) ? write_cm_command(descriptor, bytes, length)
                                   : write(descriptor, bytes, length);
}

int hooked_close(int descriptor) {
  return is_cm_channel(descriptor) ? close_cm_channel(descriptor) : close(descriptor);
}

int hooked_fstat(int descriptor, struct stat* status) {
  const int outcome = fstat(descriptor, status);
  if (outcome == 0 && is_cm_channel(descriptor)) {
    report_as_device(status);
  }
  return outcome;
}

// With _FORTIFY_SOURCE, when no file is made.
int hooked_open_2(const char* path, int flags) {
  return is_cm_device(path) ? open_cm_channel() : open(path, flags, 0);
}

// fstat before glibc 2.33. The version is that of the structure, which has changed once.
int hooked_fxstat(int version, int descriptor, struct stat* status) {
  constexpr int kKernel = 0, kLinux = 1;
  if (version != kKernel && version != kLinux) {
    errno = EINVAL;
    return -1;
  }
  return hooked_fstat(descriptor, status);
}

struct Hook {
  const char* name;
  std::uintptr_t function;
};

std::uintptr_t hook_of(const char* name) {
  const Hook hooks[] = {
      {"open", reinterpret_cast<std::uintptr_t>(hooked_open)},
      {"write", reinterpret_cast<std::uintptr_t>(hooked_write)},
      {"close", reinterpret_cast<std::uintptr_t>(hooked_close)},
      {"fstat", reinterpret_cast<std::uintptr_t>(hooked_fstat)},
      {"open64", reinterpret_cast<std::uintptr_t>(hooked_open)},
      {"__open_2", reinterpret_cast<std::uintptr_t>(hooked_open_2)},
      {"__open64_2", reinterpret_cast<std::uintptr_t>(hooked_open_2)},
      {"fstat64", reinterpret_cast<std::uintptr_t>(hooked_fstat)},
      {"__fxstat", reinterpret_cast<std::uintptr_t>(hooked_fxstat)},
      {"__fxstat64", reinterpret_cast<std::uintptr_t>(hooked_fxstat)},
  };
  for (const Hook& hook : hooks) {
    if (std::strcmp(hook.name, name) == 0) {
      return hook.function;
    }
  }
  return 0;
}

#if defined(__x86_64__)
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr std::uint32_t kDataSlot = R_X86_64_GLOB_DAT;
#else
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr std::uint32_t kDataSlot = R_AARCH64_GLOB_DAT;
#endif

// The tables of the dynamic section that determine which slot imports which name.
struct Imports {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Rela) * functions = nullptr;
  std::size_t functions_size = 0;
  const ElfW(Rela) * data = nullptr;
  std::size_t data_size = 0;
  std::uintptr_t read_only_begin = 0, read_only_end = 0;  // read-only since relocation (RELRO)
};

void note(const ElfW(Dyn) & entry, Imports* imports) {
  // The dynamic linker has turned the offsets in these entries into addresses.
  switch (entry.d_tag) {
    case DT_SYMTAB:
      imports->symbols = reinterpret_cast<const ElfW(Sym)*>(entry.d_un.d_ptr);
      break;
    case DT_STRTAB:
      imports->strings = reinterpret_cast<const char*>(entry.d_un.d_ptr);
      break;
    case DT_JMPREL:
      imports->functions = reinterpret_cast<const ElfW(Rela)*>(entry.d_un.d_ptr);
      break;
    case DT_PLTRELSZ:
      imports->functions_size = entry.d_un.d_val;
      break;
    case DT_RELA:
      imports->data = reinterpret_cast<const ElfW(Rela)*>(entry.d_un.d_ptr);
      break;
    case DT_RELASZ:
      imports->data_size = entry.d_un.d_val;
      break;
    default:
      break;
  }
}

Imports imports_of(const dl_phdr_info& object) {
  Imports imports;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const std::uintptr_t begin = object.dlpi_addr + object.dlpi_phdr[i].p_vaddr;
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      for (const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(begin); entry->d_tag != DT_NULL;
           ++entry) {
        note(*entry, &imports);
      }
    } else if (object.dlpi_phdr[i].p_type == PT_GNU_RELRO) {
      imports.read_only_begin = begin;
      imports.read_only_end = begin + object.dlpi_phdr[i].p_memsz;
    }
  }
  return imports;
}

void write_slot(const Imports& imports, std::uintptr_t address, std::uintptr_t value) {
  auto* slot = reinterpret_cast<std::uintptr_t*>(address);
  if (address < imports.read_only_begin || address >= imports.read_only_end) {
    __atomic_store_n(slot, value, __ATOMIC_RELAXED);
    return;
  }
  const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  void* page = reinterpret_cast<void*>(address & ~(page_size - 1));
  if (mprotect(page, page_size, PROT_READ | PROT_WRITE) == 0) {
    __atomic_store_n(slot, value, __ATOMIC_RELAXED);
    (void)mprotect(page, page_size, PROT_READ);
  }
}

void rewrite(const dl_phdr_info& object, const Imports& imports, const ElfW(Rela) * first,
             std::size_t size) {
  for (std::size_t i = 0; i < size / sizeof(*first); ++i) {
    const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(first[i].r_info));
    if (type != kJumpSlot && type != kDataSlot) {
      continue;
    }
    const ElfW(Sym)& symbol = imports.symbols[ELF64_R_SYM(first[i].r_info)];
    const std::uintptr_t hook = hook_of(imports.strings + symbol.st_name);
    const std::uintptr_t slot = object.dlpi_addr + first[i].r_offset;
    if (hook != 0 && *reinterpret_cast<std::uintptr_t*>(slot) != hook) {
      write_slot(imports, slot, hook);
    }
  }
}

int visit_object(dl_phdr_info* object, std::size_t /*size*/, void* /*unused*/) {
  const char* slash = std::strrchr(object->dlpi_name, '/');
  const char* name = slash != nullptr ? slash + 1 : object->dlpi_name;
  if (std::strncmp(name, "librdmacm.so", std::strlen("librdmacm.so")) != 0) {
    return 0;
  }
  const Imports imports = imports_of(*object);
  if (imports.symbols != nullptr && imports.strings != nullptr) {
    rewrite(*object, imports, imports.functions, imports.functions_size);
    rewrite(*object, imports, imports.data, imports.data_size);
  }
  return 0;
}

__attribute__((constructor)) void hook_at_start() { hook_librdmacm(); }

}  // namespace

void lock_librdmacm_hooks() { pthread_mutex_lock(&mutex); }
void unlock_librdmacm_hooks() { pthread_mutex_unlock(&mutex); }

void hook_librdmacm() {
  pthread_mutex_lock(&mutex);
  dl_iterate_phdr(visit_object, nullptr);
  pthread_mutex_unlock(&mutex);
}

}  // namespace uroce::shim
