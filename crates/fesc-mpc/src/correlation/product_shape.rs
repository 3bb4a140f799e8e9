//! How a product of a [`Bundle`] is computed: every axis has one of four classes.
//!
//! | class | left | right | result |
//! |---|---|---|---|
//! | batch | yes | yes | yes |
//! | left | yes | no | yes |
//! | right | no | yes | yes |
//! | sum | yes | yes | no |
//!
//! So every product is `out[b, l, r] = sum over s of left[b, l, s] right[b, r, s]`: `batch` matrix products.
//! An axis of one operand alone must be in the result, unless its size is 1: to sum a share over it is local.
//!
//! The two axes of a lower operand are either taken as one axis of `q (q + 1) / 2` places (both operands have
//! the same triangle, or the other operand has neither axis; the result has the triangle or neither axis), or
//! they are a row and a column (the other operand has one of them, which is summed, and the result has the
//! other). The result may be lower only in the first case. Everything else is refused.

use super::bundle::{Bundle, Product, Tensor, triangle};
use super::{MAX_WORK, check_product};
use crate::error::MpcError;

/// Places in a tensor's list `[left, right, result]`.
const OUT: usize = 2;

/// The class of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Batch,
    Left,
    Right,
    Sum,
}

/// One axis, or a triangle taken as one, or several neighbours that lie one after the other in every tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axis {
    pub size: usize,
    /// Steps in left, right and result; 0 where the tensor does not have the axis.
    pub strides: [usize; 3],
    /// For each operand: this axis is the row (place `i (i + 1) / 2`) or the column of its triangle.
    side: [Option<TriangleSide>; 2],
}

impl Axis {
    /// Whether it is the row of operand `t`'s triangle.
    pub(crate) fn is_row(&self, t: usize) -> bool {
        self.side[t] == Some(TriangleSide::Row)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TriangleSide {
    Row,
    Column,
}

/// What is stored: an axis, or a whole triangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Axis(u8),
    Pair([u8; 2]),
}

/// A product's axes by class.
#[derive(Debug, Clone)]
pub struct ProductShape {
    classes: [Vec<Axis>; 4],
    /// The axes of the result in its order.
    result: Vec<Axis>,
    out_len: usize,
}

/// Where the entries of a tensor lie: `batch[b] + free[f] + sum[s]`.
pub struct Index {
    /// By batch index.
    pub batch: Vec<u32>,
    /// By left or right index. For the result this is the left index, and `sum` the right one.
    pub free: Vec<u32>,
    /// By sum index.
    pub sum: Vec<u32>,
    /// Places of (free, sum) in the triangle, and whether free is the row.
    triangle: Option<(Vec<u32>, Vec<u32>, bool)>,
    /// The triangle's side.
    side: usize,
}

impl Index {
    /// The place of an entry, or `None` if it is above the diagonal. The indices must be in range.
    pub fn at(&self, b: usize, f: usize, s: usize) -> Option<usize> {
        self.stored(f, s).then(|| self.batch[b] as usize + self.free[f] as usize + self.sum[s] as usize)
    }

    /// Whether entries with these indices are stored, as opposed to above the diagonal.
    pub fn stored(&self, f: usize, s: usize) -> bool {
        self.triangle.as_ref().is_none_or(|(free, sum, free_is_row)| {
            let (row, column) = if *free_is_row { (free[f], sum[s]) } else { (sum[s], free[f]) };
            column <= row
        })
    }

    /// If the free index is the triangle's row and the sum index runs along it: where row `f` of batch index
    /// `b` begins, and its length.
    pub(crate) fn row(&self, b: usize, f: usize) -> Option<(usize, usize)> {
        match &self.triangle {
            Some((rows, columns, true)) if columns.len() == self.side => {
                Some((self.batch[b] as usize + self.free[f] as usize, rows[f] as usize + 1))
            }
            _ => None,
        }
    }

    /// Whether some entries are not stored.
    pub fn is_lower(&self) -> bool {
        self.triangle.is_some()
    }
}

impl ProductShape {
    /// Sorts the axes of a product.
    ///
    /// # Errors
    /// [`MpcError::Request`] for operands that do not fit (the module says what does) and for more than 2^38
    /// steps.
    pub fn new(bundle: &Bundle, product: &Product) -> Result<Self, MpcError> {
        let mask = |i: usize| bundle.masks.get(i).ok_or(MpcError::Request("a product of a mask that does not exist"));
        let tensors = [mask(product.left)?, mask(product.right)?, &product.out];
        let [left, right, out] = tensors;
        tensors.iter().try_for_each(|t| t.check(&bundle.sizes))?;
        let whole = [is_whole(left, right, out)?, is_whole(right, left, out)?, true];
        if let Some(pair) = out.pair()
            && !(0..OUT).any(|t| whole[t] && tensors[t].pair() == Some(pair))
        {
            return Err(MpcError::Request("a lower result without an operand that has the same triangle"));
        }
        // The order of the result first, then that of the left operand.
        let mut units: Vec<Unit> = Vec::new();
        let mut axes: Vec<Axis> = Vec::new();
        for t in [OUT, 0, 1] {
            for (unit, size, stride, side) in layout(tensors[t], whole[t], &bundle.sizes) {
                let at = units.iter().position(|&u| u == unit).unwrap_or_else(|| {
                    units.push(unit);
                    axes.push(Axis { size, strides: [0; 3], side: [None; 2] });
                    axes.len() - 1
                });
                axes[at].strides[t] = stride;
                if t < OUT {
                    axes[at].side[t] = side;
                }
            }
        }
        let mut classes = [const { Vec::new() }; 4];
        let mut result = Vec::new();
        for (unit, axis) in units.iter().zip(axes) {
            let has = |t: usize| layout(tensors[t], whole[t], &bundle.sizes).any(|(u, ..)| u == *unit);
            let class = match [has(0), has(1), has(OUT)] {
                [true, true, true] => Class::Batch,
                [true, false, true] => Class::Left,
                [false, true, true] => Class::Right,
                [true, true, false] => Class::Sum,
                [false, false, _] => return Err(MpcError::Request("an axis of a result that no operand has")),
                _ if axis.size == 1 => continue,
                _ => {
                    return Err(MpcError::Request(
                        "an axis of one operand alone is summed; sum it before, it is local",
                    ));
                }
            };
            push(&mut classes[class as usize], axis);
            if class != Class::Sum {
                push(&mut result, axis);
            }
        }
        let form = Self { classes, result, out_len: out.len(&bundle.sizes) };
        let steps = [form.batch(), form.left(), form.right(), form.sum()];
        check_product(&steps, MAX_WORK, "a product of more than 2^38 steps")?;
        Ok(form)
    }

    fn size(&self, class: Class) -> usize {
        self.classes[class as usize].iter().map(|a| a.size).product()
    }

    /// Independent matrix products.
    pub fn batch(&self) -> usize {
        self.size(Class::Batch)
    }

    /// Places along the axes of left and result.
    pub fn left(&self) -> usize {
        self.size(Class::Left)
    }

    /// Places along the axes of right and result.
    pub fn right(&self) -> usize {
        self.size(Class::Right)
    }

    /// Summands of an entry of the result.
    pub fn sum(&self) -> usize {
        self.size(Class::Sum)
    }

    /// Whether the left operand is a triangle that the product sees as a square.
    pub fn left_is_lower(&self) -> bool {
        self.is_lower(0)
    }

    /// Whether the right operand is.
    pub fn right_is_lower(&self) -> bool {
        self.is_lower(1)
    }

    fn is_lower(&self, operand: usize) -> bool {
        self.classes.iter().flatten().any(|a| a.side[operand].is_some())
    }

    /// Elements of the result.
    pub fn out_len(&self) -> usize {
        self.out_len
    }

    /// Where the left operand's entries lie.
    pub fn left_index(&self) -> Index {
        self.index(0, Class::Left, Class::Sum)
    }

    /// Where the right operand's entries lie.
    pub fn right_index(&self) -> Index {
        self.index(1, Class::Right, Class::Sum)
    }

    /// Where the result's entries lie: batch, left, right.
    pub fn out_index(&self) -> Index {
        self.index(OUT, Class::Left, Class::Right)
    }

    /// The axes of the result, in its order.
    pub(crate) fn result(&self) -> &[Axis] {
        &self.result
    }

    /// If the result's entries are laid out as batch, left, right in this order.
    pub(crate) fn is_in_order(&self) -> bool {
        let index = self.out_index();
        let last = |v: &[u32]| v.last().map_or(0, |&x| x as usize);
        let ascending = |v: &[u32], step: usize| v.iter().enumerate().all(|(i, &x)| x as usize == i * step);
        let (r, l) = (index.sum.len(), index.free.len());
        debug_assert!(last(&index.sum) < self.out_len.max(1));
        ascending(&index.sum, 1) && ascending(&index.free, r) && ascending(&index.batch, l * r)
    }

    fn index(&self, tensor: usize, free: Class, sum: Class) -> Index {
        let of = |class: Class| self.classes[class as usize].as_slice();
        let sides = |class: Class| of(class).iter().position(|a| tensor < OUT && a.side[tensor].is_some());
        let triangle = sides(free).zip(sides(sum)).map(|(f, s)| {
            let free_is_row = of(free)[f].side[tensor] == Some(TriangleSide::Row);
            (
                places(of(free), |i, x| if i == f { x } else { 0 }),
                places(of(sum), |i, x| if i == s { x } else { 0 }),
                free_is_row,
            )
        });
        let offsets = |class: Class| {
            places(of(class), |i, x| {
                let axis = &of(class)[i];
                match axis.side.get(tensor) {
                    Some(Some(TriangleSide::Row)) => x * (x + 1) / 2,
                    _ => x * axis.strides[tensor],
                }
            })
        };
        let side = sides(sum).map_or(0, |s| of(sum)[s].size);
        Index { batch: offsets(Class::Batch), free: offsets(free), sum: offsets(sum), triangle, side }
    }
}

/// For every index along `axes` (the last runs fastest) the sum of `place(axis, coordinate)`.
fn places(axes: &[Axis], place: impl Fn(usize, usize) -> usize) -> Vec<u32> {
    let mut out = vec![0u32];
    for (i, axis) in axes.iter().enumerate() {
        // Offsets are below 2^30: tensors have been checked.
        let steps: Vec<u32> = (0..axis.size).map(|x| place(i, x) as u32).collect();
        out = out.iter().flat_map(|&base| steps.iter().map(move |&s| base + s)).collect();
    }
    out
}

/// Appends an axis, or makes the last one longer where both together are one.
fn push(axes: &mut Vec<Axis>, axis: Axis) {
    if axis.size == 1 && axis.side == [None; 2] {
        return;
    }
    if let Some(last) = axes.last_mut()
        && last.side == [None; 2]
        && axis.side == [None; 2]
        && (0..3).all(|t| last.strides[t] == axis.strides[t] * axis.size)
    {
        *last = Axis { size: last.size * axis.size, ..axis };
        return;
    }
    axes.push(axis);
}

/// What a tensor stores, outermost first, with size and stride.
fn layout<'a>(
    tensor: &'a Tensor,
    whole: bool,
    sizes: &'a [usize],
) -> impl Iterator<Item = (Unit, usize, usize, Option<TriangleSide>)> + 'a {
    let size = |a: u8| sizes.get(usize::from(a)).copied().unwrap_or(0);
    let pair = tensor.pair();
    let plain = tensor.axes.len() - if pair.is_some() { 2 } else { 0 };
    let mut stride = pair.map_or(1, |[_, j]| triangle(size(j)));
    let mut units: Vec<_> = match pair {
        Some([i, j]) if !whole => {
            let q = size(i);
            vec![(Unit::Axis(j), q, 1, Some(TriangleSide::Column)), (Unit::Axis(i), q, 0, Some(TriangleSide::Row))]
        }
        Some([i, j]) => vec![(Unit::Pair([i, j]), stride, 1, None)],
        None => Vec::new(),
    };
    for &axis in tensor.axes[..plain].iter().rev() {
        units.push((Unit::Axis(axis), size(axis), stride, None));
        stride *= size(axis);
    }
    units.into_iter().rev()
}

/// Whether the triangle of `x` is taken as one axis (also if it has none) or as row and column.
fn is_whole(x: &Tensor, y: &Tensor, out: &Tensor) -> Result<bool, MpcError> {
    let Some([i, j]) = x.pair() else { return Ok(true) };
    let has = |t: &Tensor| [t.has(i), t.has(j)];
    let as_one = |t: &Tensor| t.pair() == Some([i, j]) || has(t) == [false; 2];
    match (has(y), has(out)) {
        _ if as_one(y) && as_one(out) => Ok(true),
        ([true, false], [false, true]) | ([false, true], [true, false]) => Ok(false),
        _ => Err(MpcError::Request("a lower operand whose rows and columns are used in a way that is not supported")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::ring;

    fn fits(masks: [Tensor; 2], out: Tensor) -> Result<ProductShape, MpcError> {
        let [left, right] = masks;
        // Axes 0 and 1 have one size, 5 has one place.
        let bundle =
            Bundle { ring: ring(48), sizes: vec![4, 4, 3, 2, 5, 1], masks: vec![left, right], products: vec![] };
        ProductShape::new(&bundle, &Product::new(0, 1, out))
    }

    #[test]
    fn axes_are_sorted_by_class() {
        let form = fits([Tensor::new(&[3, 0, 2]), Tensor::new(&[2, 4, 3])], Tensor::new(&[3, 0, 4])).unwrap();
        assert_eq!([form.batch(), form.left(), form.right(), form.sum()], [2, 4, 5, 3]);
        assert_eq!((form.left_index().at(1, 2, 1), form.right_index().at(1, 2, 1)), (Some(19), Some(15)));
        let form = fits([Tensor::lower(&[3, 0, 1]), Tensor::new(&[1, 4])], Tensor::new(&[3, 4, 0])).unwrap();
        assert_eq!([form.batch(), form.left(), form.right(), form.sum()], [1, 8, 5, 4]);
        let index = form.left_index();
        assert_eq!([index.at(0, 6, 1), index.at(0, 6, 3)], [Some(10 + 3 + 1), None]);
        assert!(index.is_lower() && !form.right_index().is_lower());
        let form = fits([Tensor::lower(&[0, 1]), Tensor::lower(&[3, 0, 1])], Tensor::lower(&[3, 0, 1])).unwrap();
        assert_eq!([form.batch(), form.left(), form.right(), form.sum()], [10, 1, 2, 1]);
    }

    #[test]
    fn products_that_do_not_fit_are_refused() {
        let (full, lower) = (Tensor::new, Tensor::lower);
        for (what, masks, out) in [
            ("unknown axis", [full(&[6]), full(&[0])], full(&[6, 0])),
            ("axis twice", [full(&[0, 0]), full(&[0])], full(&[0])),
            ("axis twice in the result", [full(&[0]), full(&[1])], full(&[0, 1, 1])),
            ("result's axis from nowhere", [full(&[0]), full(&[0])], full(&[0, 2])),
            ("one operand's axis summed", [full(&[0, 2]), full(&[0])], full(&[0])),
            ("triangle of unequal sides", [lower(&[0, 2]), full(&[2])], full(&[0])),
            ("triangle of one axis", [lower(&[0]), full(&[0])], full(&[0])),
            ("triangle and full element by element", [lower(&[0, 1]), full(&[0, 1])], lower(&[0, 1])),
            ("triangle with a full result", [lower(&[0, 1]), full(&[2])], full(&[0, 1, 2])),
            ("triangles across", [lower(&[0, 1]), lower(&[1, 0])], lower(&[0, 1])),
            ("lower result of full operands", [full(&[0, 2]), full(&[1, 2])], lower(&[0, 1])),
            ("rows of a triangle scaled", [lower(&[0, 1]), full(&[0])], lower(&[0, 1])),
            ("triangle summed over rows alone", [lower(&[0, 1]), full(&[2])], full(&[1, 2])),
            ("eight axes", [full(&[0, 1, 2, 3, 4, 5, 0, 1]), full(&[0])], full(&[0])),
        ] {
            assert!(matches!(fits(masks, out), Err(MpcError::Request(_))), "{what}");
        }
        assert!(fits([full(&[0, 5]), full(&[0])], full(&[0])).is_ok(), "an axis of one place may be left out");
        let missing = Bundle::squares(ring(48), 3);
        assert!(ProductShape::new(&missing, &Product::new(0, 1, Tensor::new(&[0]))).is_err());
    }
}
