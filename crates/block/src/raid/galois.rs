//! Arithmetic in the field of 256 elements, in which RAID 6 computes its second parity: bytes are
//! polynomials modulo x^8 + x^4 + x^3 + x^2 + 1, and the powers of 2 are all but zero, as in
//! Linux's md.

use rt::Cost;

/// The polynomial without its highest term.
const POLYNOMIAL: u8 = 0x1D;

/// Number of elements that have an inverse.
const ORDER: usize = 255;

/// Powers of 2, twice over, so that a sum of two logarithms needs no reduction.
static POWERS: [u8; 2 * ORDER] = powers();

/// Logarithms to the base 2. That of zero is not used.
static LOGARITHMS: [u8; 256] = logarithms();

const fn powers() -> [u8; 2 * ORDER] {
    let mut powers = [0; 2 * ORDER];
    let (mut power, mut at) = (1_u8, 0);
    while at < powers.len() {
        powers[at] = power;
        let carry = if power & 0x80 == 0 { 0 } else { POLYNOMIAL };
        power = (power << 1) ^ carry;
        at += 1;
    }
    powers
}

const fn logarithms() -> [u8; 256] {
    let (powers, mut logarithms) = (powers(), [0; 256]);
    let mut at = 0;
    while at < ORDER {
        logarithms[powers[at] as usize] = at as u8;
        at += 1;
    }
    logarithms
}

/// Returns a power of 2.
pub(super) fn power(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

/// Multiplies two elements.
pub(super) fn multiply(one: u8, other: u8) -> u8 {
    if one == 0 || other == 0 {
        return 0;
    }
    let logarithm = |element: u8| usize::from(LOGARITHMS[usize::from(element)]);
    POWERS[logarithm(one) + logarithm(other)]
}

/// Returns the inverse of an element other than zero.
pub(super) fn inverse(element: u8) -> u8 {
    assert_ne!(element, 0, "zero has no inverse");
    POWERS[ORDER - usize::from(LOGARITHMS[usize::from(element)])]
}

/// Adds a multiple of bytes to others of the same length.
pub(super) fn add_multiple(target: &mut [u8], source: &[u8], factor: u8) {
    assert_eq!(
        target.len(),
        source.len(),
        "parity is computed byte by byte"
    );
    rt::charge(Cost::Checksum(source.len() as u64));
    let bytes = target.iter_mut().zip(source);
    if factor == 1 {
        return bytes.for_each(|(target, source)| *target ^= source);
    }
    let products = products(factor);
    bytes.for_each(|(target, source)| *target ^= products[usize::from(*source)]);
}

/// Multiplies bytes by an element.
pub(super) fn scale(target: &mut [u8], factor: u8) {
    rt::charge(Cost::Checksum(target.len() as u64));
    let products = products(factor);
    target
        .iter_mut()
        .for_each(|byte| *byte = products[usize::from(*byte)]);
}

fn products(factor: u8) -> [u8; 256] {
    core::array::from_fn(|element| multiply(element as u8, factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product by its definition: shift and reduce.
    fn product(one: u8, other: u8) -> u8 {
        let bits = (0..8).filter(|bit| other >> bit & 1 == 1);
        bits.fold(0, |sum, bit| {
            let times = |element: u8, _| (element << 1) ^ if element < 0x80 { 0 } else { 0x1D };
            sum ^ (0..bit).fold(one, times)
        })
    }

    #[test]
    fn products_are_those_of_polynomials() {
        for one in 0..=255 {
            for other in 0..=255 {
                assert_eq!(multiply(one, other), product(one, other), "{one} {other}");
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        (1..=255).for_each(|element| assert_eq!(multiply(element, inverse(element)), 1));
    }

    #[test]
    fn powers_of_two_differ() {
        let powers: std::collections::BTreeSet<u8> = (0..255).map(power).collect();
        assert_eq!(powers.len(), 255);
        assert_eq!(power(8), 0x1D);
    }
}
