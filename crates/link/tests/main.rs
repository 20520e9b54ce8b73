//! Tests this crate in one program, which is linked once. Each file is a module.

mod link;
mod slow_fs;
