#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| torus_sm_fuzz::pqft_structure(data));
