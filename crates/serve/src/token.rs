//! Makes random names for sessions, uploads and temporary files.

/// Returns 128 random bits in hex.
pub(crate) fn random_token() -> String {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
    }
    hex::encode(bytes)
}
