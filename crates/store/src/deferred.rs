//! Reads settings from files when they are first needed. So a missing or malformed file makes only
//! those requests fail that need its setting. The command line and Python create these settings.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};

/// Reads a setting, or returns the reason why it cannot be read.
type ReadSetting<T> = dyn Fn() -> std::result::Result<T, String> + Send + Sync;

/// A setting that is read when it is first needed, and remembered from then on. Clones share the
/// value.
pub struct DeferredSetting<T> {
    setting: &'static str,
    read: Arc<ReadSetting<T>>,
    value: Arc<OnceLock<T>>,
}

impl<T> DeferredSetting<T> {
    /// Returns a setting whose value is read by `read`. Errors name it as `setting`.
    pub fn new(
        setting: &'static str,
        read: impl Fn() -> std::result::Result<T, String> + Send + Sync + 'static,
    ) -> Self {
        Self { setting, read: Arc::new(read), value: Arc::default() }
    }

    /// Returns the value. Reads it first, unless an earlier call succeeded.
    pub fn get(&self) -> Result<&T> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let refused = |why| Error::Options { what: self.setting.to_owned(), why };
        let value = (self.read)().map_err(refused)?;
        Ok(self.value.get_or_init(|| value))
    }
}

impl<T: Default> Default for DeferredSetting<T> {
    fn default() -> Self {
        Self::new("", || Ok(T::default()))
    }
}

impl<T> Clone for DeferredSetting<T> {
    fn clone(&self) -> Self {
        Self { setting: self.setting, read: Arc::clone(&self.read), value: Arc::clone(&self.value) }
    }
}

impl<T: fmt::Debug> fmt::Debug for DeferredSetting<T> {
    /// Formats the value, reading it first if necessary. So two equal settings have the same text,
    /// whether they were read before or not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Ok(value) => value.fmt(f),
            Err(error) => write!(f, "({error})"),
        }
    }
}
