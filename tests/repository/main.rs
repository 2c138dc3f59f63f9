//! Checks of the repository itself: architecture, documents, the names of the MLNX_OFED manual, and the
//! corpus of the fuzz targets.

mod architecture;
mod documents;
mod fuzz_corpus;
mod mlnx_names;
