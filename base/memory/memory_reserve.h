#pragma once

// Memory that is kept for when there is none: an allocation that fails gives up a piece of it and
// is tried again, so that threads which can't refuse anything (workers) get what little they need,
// while what programs ask for is refused until the reserve is whole again. Any thread.

namespace uroce {

// Takes what is missing of the reserve. False: the machine, or the limit of this process
// (RLIMIT_AS), has none to give.
[[nodiscard]] bool hold_memory_reserve();

}  // namespace uroce
