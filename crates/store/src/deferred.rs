//! Settings whose values are in files. A value is read when it is first needed, so that a file that
//! is missing or bad stops only the requests that need it. Made by the command line and Python.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};

/// Reads a value, or says why not.
type Read<T> = dyn Fn() -> std::result::Result<T, String> + Send + Sync;

/// A setting that is read when it is first needed, and then kept. Clones share the value.
pub struct Deferred<T> {
    setting: &'static str,
    read: Arc<Read<T>>,
    value: Arc<OnceLock<T>>,
}

impl<T> Deferred<T> {
    /// A value that `read` gives. Errors about it name `setting`.
    pub fn new(
        setting: &'static str,
        read: impl Fn() -> std::result::Result<T, String> + Send + Sync + 'static,
    ) -> Self {
        Self { setting, read: Arc::new(read), value: Arc::default() }
    }

    /// The value.
    ///
    /// # Errors
    /// [`Error::Options`]. The next call reads again.
    pub fn get(&self) -> Result<&T> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let refused = |why| Error::Options { what: self.setting.to_owned(), why };
        let value = (self.read)().map_err(refused)?;
        Ok(self.value.get_or_init(|| value))
    }
}

impl<T: Default> Default for Deferred<T> {
    fn default() -> Self {
        Self::new("", || Ok(T::default()))
    }
}

impl<T> Clone for Deferred<T> {
    fn clone(&self) -> Self {
        Self { setting: self.setting, read: Arc::clone(&self.read), value: Arc::clone(&self.value) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Deferred<T> {
    /// Reads the value: two settings of one value are alike.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Ok(value) => value.fmt(f),
            Err(error) => write!(f, "({error})"),
        }
    }
}
