//! Checks of the repository itself: architecture, documents, and the corpus of the fuzz targets.

mod architecture;
mod documents;
mod fuzz_corpus;
