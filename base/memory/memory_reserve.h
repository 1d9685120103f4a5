#pragma once

// Memory reserved for the case that allocation fails: a failing allocation releases a piece of the
// reserve and is retried. So threads that can't report failure (workers) get the little that they
// need, while requests of programs are refused until the reserve is whole again. Any thread.

namespace uroce {

// Takes what is missing of the reserve. False: the machine, or the limit of this process
// (RLIMIT_AS), has none to give.
[[nodiscard]] bool hold_memory_reserve();

}  // namespace uroce
