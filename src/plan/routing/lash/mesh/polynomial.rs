//! Characteristic polynomials of small matrices.

use super::geometry::LocalDistances;

/// Returns the coefficients of the characteristic polynomial det(M - xI), the constant one first.
/// They are modulo 2³², as OpenSM's.
///
/// The determinant is expanded row by row over all sets of columns, which takes 2ⁿ·n steps for n
/// rows.
pub(super) fn characteristic(matrix: &LocalDistances) -> Vec<i32> {
    let size = matrix.len();
    let mut minors: Vec<Vec<i32>> = vec![Vec::new(); 1 << size];
    minors[0] = vec![1];
    for columns in 0..1_usize << size {
        let minor = std::mem::take(&mut minors[columns]);
        let row = columns.count_ones() as usize;
        for column in (0..size).filter(|column| columns >> column & 1 == 0) {
            let later = (columns >> column).count_ones();
            let larger = &mut minors[columns | 1 << column];
            larger.resize(row + 2, 0);
            let sign = if later % 2 == 0 { 1 } else { -1 };
            add_product(larger, &minor, sign, matrix.get(row, column), row == column);
        }
        minors[columns] = minor;
    }
    minors.pop().expect("one minor for each set of columns, the last for all of them")
}

/// Adds `sign * factor * (entry - x)` to a sum, or `sign * factor * entry` off the diagonal.
fn add_product(sum: &mut [i32], factor: &[i32], sign: i32, entry: i32, is_diagonal: bool) {
    for (power, &coefficient) in factor.iter().enumerate() {
        let coefficient = coefficient.wrapping_mul(sign);
        sum[power] = sum[power].wrapping_add(coefficient.wrapping_mul(entry));
        if is_diagonal {
            sum[power + 1] = sum[power + 1].wrapping_sub(coefficient);
        }
    }
}
