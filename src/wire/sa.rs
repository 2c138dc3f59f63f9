//! The RMPP and SA headers (IBA vol. 1, 13.6.2 and 15.2.1).
