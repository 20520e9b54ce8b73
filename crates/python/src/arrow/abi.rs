//! The Arrow C data interface: three C structures with which libraries exchange columns without a
//! copy.
//!
//! They are defined here, since this crate needs no other part of Arrow; fields follow the
//! specification (<https://arrow.apache.org/docs/format/CDataInterface.html>). The owner of a
//! structure frees it by calling its `release`; a consumer that took it over sets `release` to
//! null. A release callback may run on any thread, with or without the interpreter, so nothing here
//! touches Python.

use std::ffi::{c_char, c_int, c_void};

/// The type of a column, or of a whole batch.
#[repr(C)]
pub(crate) struct ArrowSchema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut ArrowSchema,
    pub(super) dictionary: *mut ArrowSchema,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(super) private_data: *mut c_void,
}

/// The data of a column, or of a whole batch.
#[repr(C)]
pub(crate) struct ArrowArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *const *const c_void,
    pub(super) children: *mut *mut ArrowArray,
    pub(super) dictionary: *mut ArrowArray,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(super) private_data: *mut c_void,
}

/// A source of batches of one type.
#[repr(C)]
pub(crate) struct ArrowArrayStream {
    pub(super) get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub(super) get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub(super) get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub(super) private_data: *mut c_void,
}

impl ArrowSchema {
    /// The empty structure, which means "none" to a consumer.
    pub(super) const NONE: Self = Self {
        format: std::ptr::null(),
        name: std::ptr::null(),
        metadata: std::ptr::null(),
        flags: 0,
        n_children: 0,
        children: std::ptr::null_mut(),
        dictionary: std::ptr::null_mut(),
        release: None,
        private_data: std::ptr::null_mut(),
    };
    /// The flag of a column that may hold nulls.
    pub(super) const NULLABLE: i64 = 2;
}

impl ArrowArray {
    /// The empty structure, which ends a stream.
    pub(super) const NONE: Self = Self {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: std::ptr::null(),
        children: std::ptr::null_mut(),
        dictionary: std::ptr::null_mut(),
        release: None,
        private_data: std::ptr::null_mut(),
    };
}

/// Frees a structure by its own callback. A consumer that took it over has cleared the callback.
macro_rules! release_on_drop {
    ($($structure:ty),*) => {$(
        impl Drop for $structure {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the callback was set by the producer of the structure, and is called
                    // once: it clears itself.
                    unsafe { release(self) }
                }
            }
        }

        // SAFETY: the data behind the pointers is owned by the structure alone and is not bound to
        // a thread.
        unsafe impl Send for $structure {}
    )*};
}

release_on_drop!(ArrowSchema, ArrowArray, ArrowArrayStream);
