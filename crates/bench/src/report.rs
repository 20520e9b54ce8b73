//! Reports of results: an HTML page that needs no network, Markdown, and text for a terminal.
//!
//! Pure: results in, text out. [`crate::statistics`] computes the figures; this module formats and
//! arranges them. Called by `bench report` and `bench compare`, by `advise run --page`, and by
//! `demo`.

mod advised;
mod case;
mod compared;
mod data;
mod pages;
mod rivals;
mod scaling;
mod tables;
mod template;
mod terminal;
mod words;

pub use advised::{AdviceQuestion, advised};
pub use compared::compared;
pub use pages::{html, markdown};
pub use terminal::terminal;

#[cfg(test)]
mod tests;
