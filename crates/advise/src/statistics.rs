//! Statistics of samples: see the functions.
