//! Exports any iterator of batches as an Arrow C stream.
//!
//! A consumer pulls one batch after another, from any thread and without the interpreter, so a
//! query engine reads a listing in constant memory.

use std::ffi::{CString, c_char, c_int};
use std::ptr::null;
use std::sync::Arc;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema};
use super::batch::{ArrowBatch, Field};
use super::export;

/// Batches, or the error message that ends them.
pub(crate) type BatchIterator = Box<dyn Iterator<Item = Result<Arc<ArrowBatch>, String>> + Send>;

/// `EINVAL` for every failure. The error message of the stream names the cause.
const FAILED: c_int = 22;

/// Data that an exported stream owns.
struct Source {
    fields: Arc<[Field]>,
    batches: BatchIterator,
    error: Option<CString>,
}

/// Exports `batches`, which have the columns `fields`.
pub(crate) fn stream(fields: Arc<[Field]>, batches: BatchIterator) -> ArrowArrayStream {
    let source = Box::new(Source { fields, batches, error: None });
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Box::into_raw(source).cast(),
    }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the stream was made here and is not released. `out` belongs to the consumer, and
    // holds nothing yet.
    unsafe {
        let source = &*(*stream).private_data.cast::<Source>();
        out.write(export::schema(&source.fields));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as above; a consumer calls one function of a stream at a time.
    let source = unsafe { &mut *(*stream).private_data.cast::<Source>() };
    let array = match source.batches.next() {
        Some(Ok(batch)) => export::array(&batch, &source.fields),
        None => ArrowArray::NONE,
        Some(Err(line)) => {
            source.error = Some(CString::new(line.replace('\0', "\\0")).unwrap_or_default());
            return FAILED;
        }
    };
    // SAFETY: `out` belongs to the consumer, and holds nothing yet.
    unsafe { out.write(array) }
    0
}

unsafe extern "C" fn get_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: as above; the text lives until the next call.
    let source = unsafe { &*(*stream).private_data.cast::<Source>() };
    source.error.as_ref().map_or(null(), |line| line.as_ptr())
}

unsafe extern "C" fn release(stream: *mut ArrowArrayStream) {
    // SAFETY: called once, with a stream made above.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Source>()));
        (*stream).release = None;
    }
}
