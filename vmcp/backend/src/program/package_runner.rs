//! Package runners: npx, uvx, `pnpm dlx` and bunx install a server once, and then stay in memory beside it.
//! This room finds the program that a runner has installed, so that later starts run the program itself.
//!
//! | module | holds |
//! |---|---|
//! | `command_line` | a runner's options, package and program, from its arguments; pure |
//! | `npm_cache` | programs in npm's cache |
//! | `pnpm_cache` | programs in pnpm's cache, as pnpm answers |
//! | `bun_cache` | folders in bun's cache |
//! | `uv_environment` | programs in uv's environments, as uv answers |
//! | `package_run` | a backend whose program a runner starts; asks the runner |
//! | `pinned_program` | a program found: its package, version and path |
//! | `pinned` | the programs found, one file each |

mod bun_cache;
mod command_line;
mod npm_cache;
mod package_run;
mod pinned;
mod pinned_program;
mod pnpm_cache;
mod uv_environment;

pub use package_run::PackageRun;
pub use pinned::PinnedPrograms;
pub use pinned_program::PinnedProgram;
