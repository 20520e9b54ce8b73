//! Reports of results: an HTML page that needs no network, Markdown, and text for a terminal.
//!
//! Pure: results in, text out. `advise::statistics` computes the figures; this module formats and
//! arranges them. Called by `bench report` and `bench compare`, by `advise run --page`, and by
//! `demo`.

mod advised;
mod case_html;
mod compared;
mod data;
mod html;
mod markdown;
mod rivals;
mod scaling;
mod tables;
mod terminal;
mod words;

pub use advised::{Asked, advised};
pub use compared::compared;
pub use html::html;
pub use markdown::markdown;
pub use terminal::terminal;

#[cfg(test)]
mod tests;
