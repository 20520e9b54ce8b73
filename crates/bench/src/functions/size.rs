//! The memory of a function, its share of a processor, and the number of functions that fit on a
//! machine. Called by the engine for emulated functions, and by the local host.

use firstbyte_location::units;

use crate::machine;

/// Memory in bytes at which a function has one processor, according to AWS Lambda's documentation.
const BYTES_PER_PROCESSOR: u64 = 1_769_000_000;
/// Smallest memory of a function in bytes. Below about 18 MB, the share of a processor would be
/// smaller than the kernel can give.
const MIN_BYTES: u64 = 32_000_000;
/// Part of the machine's memory that functions may use. Services and data need the rest.
const MEMORY_SHARE: f64 = 0.8;

/// The size of a function.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FunctionSize {
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// Memory and processors of the machine, which the functions share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineCapacity {
    pub(crate) memory_bytes: u64,
    pub(crate) processors: usize,
}

impl FunctionSize {
    /// Parses text such as `512MB`.
    ///
    /// # Errors
    /// The text is not a size, or one too small for a function.
    pub fn parse(text: &str) -> Result<Self, String> {
        match units::parse_size(text) {
            Ok(..MIN_BYTES) => Err(format!("{text}: the least memory of a function is 32MB")),
            Ok(memory_bytes) => Ok(Self { memory_bytes }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the share of processors; 1 is a whole one.
    #[must_use]
    pub fn processors(self) -> f64 {
        self.memory_bytes as f64 / BYTES_PER_PROCESSOR as f64
    }

    /// Returns the memory in MB, Lambda's unit.
    #[must_use]
    pub fn megabytes(self) -> u64 {
        (self.memory_bytes + 500_000) / 1_000_000
    }

    /// Returns the number of such functions that fit on `machine` at once.
    pub(crate) fn count_fitting(self, machine: MachineCapacity) -> u32 {
        let by_memory = machine.memory_bytes as f64 * MEMORY_SHARE / self.memory_bytes as f64;
        let by_time = machine.processors as f64 / self.processors();
        // A single function runs even if it has more processors than the machine.
        by_memory.min(by_time.max(1.0)) as u32
    }
}

impl std::fmt::Display for FunctionSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "function: {} MB and {:.3} processors for each job", self.megabytes(), self.processors())
    }
}

impl MachineCapacity {
    /// Returns the memory and processors of this machine.
    pub(crate) fn current() -> Self {
        let memory_bytes = machine::memory(&|name| std::env::var(name).ok());
        Self { memory_bytes, processors: machine::processors() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_its_share_of_a_processor() {
        let of = |megabytes: u64| FunctionSize { memory_bytes: megabytes * 1_000_000 };
        assert!((of(1769).processors() - 1.0).abs() < 1e-9);
        assert_eq!(of(512).to_string(), "function: 512 MB and 0.289 processors for each job");
        assert_eq!(FunctionSize::parse("512MB"), Ok(of(512)));
        assert!(FunctionSize::parse("0").unwrap_err().contains("least memory"));
    }
}
