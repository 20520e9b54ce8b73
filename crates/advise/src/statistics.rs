//! Statistics of samples.
