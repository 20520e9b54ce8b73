//! Makes contents that identify their write: every 16-byte cell has the number of its write, the
//! number of cells, and its own position.

use std::fmt::Write as _;

const CELL: usize = 16;

/// Makes the bytes of write `id`, with `cells` cells.
pub(crate) fn content(id: u64, cells: u32) -> Vec<u8> {
    let cell =
        |number: u32| [id.to_le_bytes().as_slice(), &cells.to_le_bytes(), &number.to_le_bytes()].concat();
    (0..cells).flat_map(cell).collect()
}

/// Returns the writes that make up `bytes`, in order.
///
/// # Errors
/// The bytes mix several writes, so they are not a sequence of whole writes.
pub(crate) fn writes(bytes: &[u8]) -> Result<Vec<u64>, String> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(cell) = rest.get(..CELL) {
        let id = u64::from_le_bytes(cell[..8].try_into().unwrap());
        let cells = u32::from_le_bytes(cell[8..12].try_into().unwrap());
        let expected = content(id, cells);
        if cells == 0 || !rest.starts_with(&expected) {
            let mut message = format!("a mixture after writes {found:?}:");
            for cell in rest.chunks(CELL).take(6) {
                let _ = write!(message, " {cell:02x?}");
            }
            return Err(message);
        }
        found.push(id);
        rest = &rest[expected.len()..];
    }
    if rest.is_empty() { Ok(found) } else { Err(format!("{} odd bytes after writes {found:?}", rest.len())) }
}
