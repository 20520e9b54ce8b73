//! Exports batches and their types as the C structures of the Arrow data interface.
//!
//! Nothing is copied: an exported array keeps its batch alive. Each of its columns does so too,
//! because a consumer may take one column and release the others.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use super::abi::{ArrowArray, ArrowSchema};
use super::batch::{ArrowBatch, Field, Type};

/// Exports the type of batches with these columns.
pub(crate) fn schema(fields: &[Field]) -> ArrowSchema {
    let children = fields.iter().map(field).collect();
    own_schema(c"+s", c"", 0, children, None)
}

fn field(field: &Field) -> ArrowSchema {
    let words = (field.kind == Type::Word).then(|| own_schema(c"u", c"", 0, Vec::new(), None));
    let flags = if field.nullable { ArrowSchema::NULLABLE } else { 0 };
    own_schema(field.kind.format(), field.name, flags, Vec::new(), words)
}

/// Exports the data of a batch as one array with a child for each column.
pub(crate) fn array(batch: &Arc<ArrowBatch>, fields: &[Field]) -> ArrowArray {
    let children = batch.columns.iter().zip(fields).map(|(column, field)| {
        let words = (field.kind == Type::Word).then(|| words(field.words));
        let kept = ArrayParts {
            buffers: column.buffers(),
            children: Vec::new(),
            dictionary: words.map(Box::new),
            _data: Data::Batch { _batch: Arc::clone(batch) },
        };
        own_array(batch.rows, column.missing(), kept)
    });
    let children = children.map(Box::new).map(Box::into_raw).collect();
    let nothing = Data::Batch { _batch: Arc::clone(batch) };
    own_array(
        batch.rows,
        0,
        ArrayParts { buffers: vec![std::ptr::null()], children, dictionary: None, _data: nothing },
    )
}

/// Exports the texts of a column of [`Type::Word`].
fn words(words: &[&str]) -> ArrowArray {
    let bytes = words.concat().into_bytes();
    let ends = words.iter().scan(0, |end, word| {
        *end += i32::try_from(word.len()).expect("a word is short");
        Some(*end)
    });
    let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
    let buffers = vec![std::ptr::null(), offsets.as_ptr().cast(), bytes.as_ptr().cast()];
    let data = Data::Words { _offsets: offsets, _bytes: bytes };
    own_array(words.len(), 0, ArrayParts { buffers, children: Vec::new(), dictionary: None, _data: data })
}

/// Data that an exported schema owns.
struct SchemaParts {
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
}

fn own_schema(
    format: &'static CStr,
    name: &'static CStr,
    flags: i64,
    children: Vec<ArrowSchema>,
    dictionary: Option<ArrowSchema>,
) -> ArrowSchema {
    let mut parts = Box::new(SchemaParts {
        children: children.into_iter().map(Box::new).map(Box::into_raw).collect(),
        dictionary: dictionary.map_or(null_mut(), |schema| Box::into_raw(Box::new(schema))),
    });
    let mut schema = ArrowSchema::NONE;
    schema.format = format.as_ptr();
    schema.name = name.as_ptr();
    schema.flags = flags;
    schema.n_children = parts.children.len() as i64;
    schema.children = parts.children.as_mut_ptr();
    schema.dictionary = parts.dictionary;
    schema.release = Some(release_schema);
    schema.private_data = Box::into_raw(parts).cast();
    schema
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: called once, with a structure made by `own_schema`; its parts and their members came
    // from boxes.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        (*schema).release = None;
        parts.children.into_iter().for_each(|child| drop(Box::from_raw(child)));
        if !parts.dictionary.is_null() {
            drop(Box::from_raw(parts.dictionary));
        }
    }
}

/// The owner of an array's buffers. While it exists, they are neither freed nor moved.
enum Data {
    Batch { _batch: Arc<ArrowBatch> },
    Words { _offsets: Vec<i32>, _bytes: Vec<u8> },
}

/// Data that an exported array owns.
struct ArrayParts {
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    dictionary: Option<Box<ArrowArray>>,
    _data: Data,
}

fn own_array(rows: usize, missing: usize, parts: ArrayParts) -> ArrowArray {
    let mut parts = Box::new(parts);
    let mut array = ArrowArray::NONE;
    array.length = rows as i64;
    array.null_count = missing as i64;
    array.n_buffers = parts.buffers.len() as i64;
    array.n_children = parts.children.len() as i64;
    array.buffers = parts.buffers.as_ptr();
    array.children = parts.children.as_mut_ptr();
    array.dictionary = parts.dictionary.as_deref_mut().map_or(null_mut(), |words| words);
    array.release = Some(release_array);
    array.private_data = Box::into_raw(parts).cast();
    array
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: called once, with a structure made by `own_array`; its parts and their members came
    // from boxes.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        (*array).release = None;
        parts.children.iter().for_each(|&child| drop(Box::from_raw(child)));
    }
}
