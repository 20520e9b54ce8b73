//! Columns in memory in Arrow's layout, so that they are exported without a copy. `columns` builds
//! them.

use std::ffi::{CStr, c_void};

/// Type of the values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// Text in UTF-8.
    Utf8,
    /// Bytes.
    Binary,
    /// Unsigned numbers of 64 bits.
    U64,
    /// Unsigned numbers of 32 bits.
    U32,
    /// Nanoseconds since 1970 in UTC.
    Time,
    /// One of a few texts: an index of 8 bits into [`Field::words`].
    Word,
}

impl Type {
    /// The type's name in the C data interface.
    pub(super) fn format(self) -> &'static CStr {
        match self {
            Self::Utf8 => c"u",
            Self::Binary => c"z",
            Self::U64 => c"L",
            Self::U32 => c"I",
            Self::Time => c"tsn:UTC",
            Self::Word => c"c",
        }
    }
}

/// A column's name and type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static CStr,
    pub(crate) kind: Type,
    /// True if values may be missing.
    pub(crate) nullable: bool,
    /// The texts of a [`Type::Word`]; else empty.
    pub(crate) words: &'static [&'static str],
}

/// The values of one column.
#[derive(Debug)]
pub(crate) enum ColumnValues {
    /// Offset of each value in the bytes, and of the end of the last one.
    Bytes {
        offsets: Vec<i32>,
        bytes: Vec<u8>,
    },
    U64(Vec<u64>),
    U32(Vec<u32>),
    Time(Vec<i64>),
    Word(Vec<i8>),
}

impl ColumnValues {
    /// Makes a column of this type without values.
    pub(crate) fn new(kind: Type) -> Self {
        match kind {
            Type::Utf8 | Type::Binary => Self::Bytes { offsets: vec![0], bytes: Vec::new() },
            Type::U64 => Self::U64(Vec::new()),
            Type::U32 => Self::U32(Vec::new()),
            Type::Time => Self::Time(Vec::new()),
            Type::Word => Self::Word(Vec::new()),
        }
    }

    /// Makes a column of the same type without values, and with room for as many.
    pub(crate) fn room_for(&self) -> Self {
        match self {
            Self::Bytes { offsets, bytes } => {
                let mut room = Vec::with_capacity(offsets.len());
                room.push(0);
                Self::Bytes { offsets: room, bytes: Vec::with_capacity(bytes.len()) }
            }
            Self::U64(values) => Self::U64(Vec::with_capacity(values.len())),
            Self::U32(values) => Self::U32(Vec::with_capacity(values.len())),
            Self::Time(values) => Self::Time(Vec::with_capacity(values.len())),
            Self::Word(values) => Self::Word(Vec::with_capacity(values.len())),
        }
    }

    /// Returns pointers to the data: offsets and bytes, or the values alone.
    fn buffers(&self) -> Vec<*const c_void> {
        match self {
            Self::Bytes { offsets, bytes } => vec![offsets.as_ptr().cast(), bytes.as_ptr().cast()],
            Self::U64(values) => vec![values.as_ptr().cast()],
            Self::U32(values) => vec![values.as_ptr().cast()],
            Self::Time(values) => vec![values.as_ptr().cast()],
            Self::Word(values) => vec![values.as_ptr().cast()],
        }
    }
}

/// The rows of a column that have a value, one bit each. Bits are kept only once a value is
/// missing.
#[derive(Debug, Default)]
pub(crate) struct Validity {
    bits: Vec<u8>,
    rows: usize,
    missing: usize,
}

impl Validity {
    /// Notes the next row.
    pub(crate) fn push(&mut self, present: bool) {
        if !present && self.missing == 0 {
            // All earlier rows have a value.
            self.bits = vec![0xff; self.rows / 8 + 1];
            self.bits[self.rows / 8] = (1 << (self.rows % 8)) - 1;
        } else if self.missing > 0 && self.rows.is_multiple_of(8) {
            self.bits.push(0);
        }
        if present && self.missing > 0 {
            self.bits[self.rows / 8] |= 1 << (self.rows % 8);
        }
        self.missing += usize::from(!present);
        self.rows += 1;
    }
}

/// One column of a batch.
#[derive(Debug)]
pub(crate) struct ArrowColumn {
    pub(crate) values: ColumnValues,
    pub(crate) validity: Validity,
}

impl ArrowColumn {
    /// Number of missing values.
    pub(super) fn missing(&self) -> usize {
        self.validity.missing
    }

    /// Returns pointers to the bits of presence, null if no value is missing, and to the data.
    pub(super) fn buffers(&self) -> Vec<*const c_void> {
        let bits =
            if self.validity.missing == 0 { std::ptr::null() } else { self.validity.bits.as_ptr().cast() };
        let mut buffers = vec![bits];
        buffers.extend(self.values.buffers());
        buffers
    }
}

/// Rows, stored column by column.
#[derive(Debug)]
pub(crate) struct ArrowBatch {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ArrowColumn>,
}
