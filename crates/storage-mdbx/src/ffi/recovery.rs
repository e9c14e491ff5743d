//! Which of the file's meta pages counts when a store is opened.
//!
//! A commit leaves a *weak* meta page: nothing says that the pages it refers to have reached the device. As long as the
//! machine was not restarted libmdbx takes a weak page for good, because a killed process leaves its pages with the system. It
//! does not know that the system may have failed to write them: such a page stays in memory, counts as written, and no later
//! sync looks at it. A steady point made upon it would then be one to pages that never arrived. So a store goes back to its
//! last *steady* point, whose pages were synced before it was made, and the journal gives back the rest.
//!
//! The meta pages are in doubt in the same way: they are written once more, byte for byte, and synced.

use std::os::fd::BorrowedFd;

use super::*;

/// Meta pages at the beginning of the file.
const META_PAGES: usize = 3;

/// The transaction of each meta page, 0 where it is torn, and whether it is a steady point.
struct Metas([(u64, bool); META_PAGES]);

impl Metas {
    fn newest(&self, counts: impl Fn(bool) -> bool) -> Option<usize> {
        let pages = (0..META_PAGES).filter(|&page| self.0[page].0 > 0 && counts(self.0[page].1));
        pages.max_by_key(|&page| self.0[page].0)
    }

    /// The meta page to go back to, where the newest is weak and there is one. A file whose steady points were all given up
    /// (in the mode that promises nothing) has none.
    fn to_go_back_to(&self) -> Option<usize> {
        let head = self.newest(|_| true)?;
        let steady = self.newest(|is_steady| is_steady)?;
        (steady != head).then_some(steady)
    }
}

impl Env {
    /// Takes an existing store back to its last steady point, if anything was committed after it. Where no meta page can be
    /// read the store is left as it is: opening it says what is wrong with it.
    pub(crate) fn go_back_to_steady(directory: &Path, options: &Options) -> Result<()> {
        let Some(found) = Self::on_any_meta(directory, options)? else {
            return Ok(());
        };
        found.write_metas_again()?;
        let target = found.metas()?.to_go_back_to();
        drop(found);
        let Some(target) = target else {
            return Ok(());
        };
        let env = Self::on_meta(directory, options, target)?;
        // SAFETY: the environment is open, by this process alone and for this meta page.
        check("go back to the last steady point", unsafe {
            mdbx_sys::mdbx_env_turn_for_recovery(env.as_ptr(), target as u32)
        })
    }

    /// Opened on whichever meta page is whole.
    fn on_any_meta(directory: &Path, options: &Options) -> Result<Option<Self>> {
        for page in 0..META_PAGES {
            match Self::on_meta(directory, options, page) {
                Err(Error::Corruption(_)) => {}
                opened => return opened.map(Some),
            }
        }
        Ok(None)
    }

    /// Opened by this process alone, with one meta page as the one that counts; nothing of the file changes by that.
    fn on_meta(directory: &Path, options: &Options, page: usize) -> Result<Self> {
        let env = Self::create(options)?;
        let path = path_of(directory)?;
        // SAFETY: the environment is created and not yet open; `path` ends in NUL and outlives the call.
        let code = unsafe {
            mdbx_sys::mdbx_env_open_for_recovery(env.as_ptr(), path.as_ptr(), page as u32, true)
        };
        check(&format!("open `{}`", directory.display()), code)?;
        Ok(env)
    }

    fn metas(&self) -> Result<Metas> {
        let info = self.raw_info()?;
        let meta = |page: usize| {
            (
                info.mi_meta_txnid[page],
                is_steady_sign(info.mi_meta_sign[page]),
            )
        };
        Ok(Metas(std::array::from_fn(meta)))
    }

    /// Writes the meta pages to the device as they stand in memory, whatever became of earlier writes.
    fn write_metas_again(&self) -> Result<()> {
        let mut metas = [0; META_PAGES * PAGE_BYTES];
        let file = self.file()?;
        let count = rustix::io::pread(file, &mut metas, 0).map_err(std::io::Error::from)?;
        let written = rustix::io::pwrite(file, &metas[..count], 0).map_err(std::io::Error::from)?;
        if written < count {
            return Err(Error::Io("the meta pages were written in part".into()));
        }
        rustix::fs::fdatasync(file).map_err(std::io::Error::from)?;
        Ok(())
    }

    pub(super) fn file(&self) -> Result<BorrowedFd<'_>> {
        let mut fd = -1;
        // SAFETY: the environment is open; `fd` is a place for one descriptor.
        check("find the file", unsafe {
            mdbx_sys::mdbx_env_get_fd(self.as_ptr(), &raw mut fd)
        })?;
        // SAFETY: libmdbx keeps the descriptor open as long as the environment, which `self` borrows.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }
}
