//! Vectors that start on a cache line, and on a huge page when they are large.
//!
//! A vector of the system allocator starts 16 bytes into a line: every 64-byte load then reads two lines,
//! which costs a transform 1.6 times its time. [`Aligned`] starts on a line. From [`HUGE_FROM`] bytes on it
//! starts on a 2 MB page and asks Linux for huge pages: keys of tens of megabytes are read once per
//! operation, and small pages stop the processor's prefetching every 4 KB. 64 MB in a row are read at 26
//! instead of 8 GB/s, and first touched in 30 instead of 110 ms (`examples/rns_speed.rs`); the many streams
//! of an inner product gain less, 4 percent.
//!
//! Contents are not wiped on drop. Whoever keeps a secret here wipes it with [`Zeroize`].

use bytemuck::Pod;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use zeroize::Zeroize;

/// Alignment in bytes: one cache line, one AVX-512 register.
pub const LINE: usize = 64;
/// Bytes from which a vector is placed on huge pages.
pub const HUGE_FROM: usize = 4 << 20;
/// A huge page of x86-64 and of most ARM kernels.
const HUGE_PAGE: usize = 2 << 20;

/// A vector of fixed length of plain numbers, on a cache line.
pub struct Aligned<T: Pod> {
    start: NonNull<T>,
    len: usize,
    owns: PhantomData<T>,
}

// SAFETY: an `Aligned` owns its memory alone, like a `Box<[T]>`, and plain numbers may change threads.
unsafe impl<T: Pod + Send> Send for Aligned<T> {}
// SAFETY: as above; shared access gives shared slices only.
unsafe impl<T: Pod + Sync> Sync for Aligned<T> {}

/// Size and alignment of `len` elements. The same for allocation and release.
///
/// # Panics
/// If the size is above `isize::MAX` bytes.
fn layout<T>(len: usize) -> Layout {
    const { assert!(align_of::<T>() <= LINE) };
    let bytes = len.saturating_mul(size_of::<T>());
    let align = if bytes >= HUGE_FROM { HUGE_PAGE } else { LINE };
    match Layout::from_size_align(bytes, align) {
        Ok(layout) => layout,
        #[allow(clippy::panic)]
        Err(_) => panic!("{len} elements of {} bytes do not fit an address space", size_of::<T>()),
    }
}

/// Asks for huge pages under fresh memory. A refusal changes nothing but speed.
#[cfg(target_os = "linux")]
fn ask_for_huge_pages(start: *mut u8, layout: Layout) {
    if layout.align() == HUGE_PAGE {
        let whole = layout.size() / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range is whole pages inside one live allocation; the advice never changes contents.
        unsafe { libc::madvise(start.cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: *mut u8, _: Layout) {}

impl<T: Pod> Aligned<T> {
    /// `len` zeros.
    ///
    /// # Panics
    /// If the size is above `isize::MAX` bytes.
    pub fn zeroed(len: usize) -> Self {
        let layout = layout::<T>(len);
        if layout.size() == 0 {
            return Self { start: NonNull::dangling(), len, owns: PhantomData };
        }
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        ask_for_huge_pages(start.as_ptr(), layout);
        // SAFETY: the allocation has this size. All-zero bytes are a value of every `Pod` type.
        unsafe { start.as_ptr().write_bytes(0, layout.size()) };
        Self { start: start.cast(), len, owns: PhantomData }
    }

    /// A copy of a slice.
    ///
    /// # Panics
    /// If the size is above `isize::MAX` bytes.
    pub fn from_slice(values: &[T]) -> Self {
        let mut out = Self::zeroed(values.len());
        out.copy_from_slice(values);
        out
    }
}

impl<T: Pod> Drop for Aligned<T> {
    fn drop(&mut self) {
        let layout = layout::<T>(self.len);
        if layout.size() != 0 {
            // SAFETY: allocated in `zeroed` with the same layout, which depends on `len` alone.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

impl<T: Pod> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised elements, or none at a dangling aligned address.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Pod> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Pod> Clone for Aligned<T> {
    fn clone(&self) -> Self {
        Self::from_slice(self)
    }
}

impl<T: Pod> Default for Aligned<T> {
    fn default() -> Self {
        Self::zeroed(0)
    }
}

impl<T: Pod + PartialEq> PartialEq for Aligned<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + Eq> Eq for Aligned<T> {}

/// The length alone: what is inside may be secret.
impl<T: Pod> fmt::Debug for Aligned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aligned({} elements)", self.len)
    }
}

impl<T: Pod + zeroize::DefaultIsZeroes> Zeroize for Aligned<T> {
    fn zeroize(&mut self) {
        self.deref_mut().zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_on_a_line_or_a_huge_page_and_is_zero() {
        for len in [0, 1, 7, 8, 4096, HUGE_FROM / 8 - 1, HUGE_FROM / 8, HUGE_FROM / 8 + 5] {
            let mut v = Aligned::<u64>::zeroed(len);
            assert_eq!(v.len(), len);
            assert!(v.iter().all(|&x| x == 0));
            if len > 0 {
                let page = if len * 8 >= HUGE_FROM { HUGE_PAGE } else { LINE };
                assert_eq!(v.as_ptr() as usize % page, 0, "{len}");
            }
            v.iter_mut().enumerate().for_each(|(i, x)| *x = i as u64);
            let mut copy = v.clone();
            assert_eq!(copy, v);
            assert!(copy.iter().enumerate().all(|(i, &x)| x == i as u64));
            copy.zeroize();
            assert!(copy.iter().all(|&x| x == 0));
            // The copy has its own memory.
            assert!(v.iter().enumerate().all(|(i, &x)| x == i as u64));
        }
    }

    #[test]
    fn debug_does_not_show_the_contents() {
        let text = format!("{:?}", Aligned::from_slice(&[12_345_u64; 3]));
        assert_eq!(text, "Aligned(3 elements)");
    }
}
