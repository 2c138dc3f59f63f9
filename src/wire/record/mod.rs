//! The records of subnet administration, IBA vol. 1, 15.2.5: one file each.
