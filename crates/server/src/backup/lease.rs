//! Leases keep those apart who change a repository in an object store, which has no locks: each leaves an object, and writes it again while it
//! works.
//!
//! Several may add beside each other, because chunks are named by what they hold; whoever removes is alone, because it would take away chunks
//! that a backup has found and not named yet. Each writes its object and then lists all of them, so that of two that begin
//! together at least one sees the other. Age counts by the store's clock: a lease is compared with one's own, which is as old as
//! the question. Keeps true: a holder whose lease is gone, or was not renewed in time, learns of it before what it does counts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use crate::backup::bucket::{Bucket, gone};

/// The names of leases begin with it.
const LEASES: &str = "leases";
/// A lease that was not written again for so long is nobody's.
const LEASE_TIME: Duration = Duration::from_secs(600);
/// How often a lease is written again. Between two of them a store may be out of reach for some minutes.
const RENEWAL_TIME: Duration = Duration::from_secs(60);
/// A holder that did not renew its lease for so long gives it up, well before others take it for nobody's.
const HOLD_TIME: Duration = Duration::from_secs(450);
/// No more is shown of who holds a lease.
const HOLDER_BYTES_MAX: usize = 200;

/// Why somebody takes a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Add,
    Remove,
}

/// The right to change a repository, until it is dropped.
pub struct Lease {
    bucket: Arc<Bucket>,
    name: String,
    is_lost: Arc<AtomicBool>,
    /// Dropped to end the thread that renews.
    end: Option<Sender<()>>,
    renewal: Option<JoinHandle<()>>,
}

impl Lease {
    /// Takes a lease; the error names who is in the way.
    pub fn take(bucket: &Arc<Bucket>, purpose: Purpose) -> io::Result<Lease> {
        Lease::take_beside(bucket, purpose, LEASE_TIME)
    }

    /// Like `take`, but another lease is nobody's after this time.
    fn take_beside(
        bucket: &Arc<Bucket>,
        purpose: Purpose,
        lease_time: Duration,
    ) -> io::Result<Lease> {
        let kind = match purpose {
            Purpose::Add => "add",
            Purpose::Remove => "remove",
        };
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("{LEASES}/{kind}-{:016x}", u64::from_be_bytes(random));
        let began = SystemTime::now();
        bucket.write(&name, &holder())?.wait()?;
        let mut lease = Lease {
            bucket: Arc::clone(bucket),
            name,
            is_lost: Arc::default(),
            end: None,
            renewal: None,
        };
        lease.refuse_others(purpose, lease_time)?;
        lease.begin_renewal(began)?;
        Ok(lease)
    }

    /// An error where others may have taken the lease for nobody's meanwhile.
    pub fn check(&self) -> io::Result<()> {
        if !self.is_lost.load(Ordering::Acquire) && self.bucket.is_there(&self.name)? {
            return Ok(());
        }
        Err(gone(
            "this process could not say for minutes that it is still at work, and another one may have removed what it needs: it gives up",
        ))
    }

    /// Removes leases that are nobody's; an error where another one is in the way.
    fn refuse_others(&self, purpose: Purpose, lease_time: Duration) -> io::Result<()> {
        let leases = self.bucket.list(LEASES, usize::MAX)?;
        let own = leases.iter().find(|lease| lease.name == self.name);
        let own = own.ok_or_else(|| gone("it does not list what it was given"))?;
        for lease in &leases {
            let age_ms = own.written_unix_ms - lease.written_unix_ms;
            let is_remover = lease.name.starts_with("leases/remove-");
            if lease.name == self.name {
                continue;
            }
            if age_ms > lease_time.as_millis() as i64 {
                self.bucket.remove(std::slice::from_ref(&lease.name))?;
            } else if purpose == Purpose::Remove || is_remover {
                let who = self
                    .bucket
                    .read(&lease.name, HOLDER_BYTES_MAX)
                    .unwrap_or_default();
                let who = String::from_utf8_lossy(&who);
                let who: String = who.chars().filter(|each| !each.is_control()).collect();
                return Err(gone(&format!(
                    "another process uses it: {who}, sign of life {} s ago (`{}`); one that was killed is in the way for {} s",
                    age_ms.max(0) / 1000,
                    lease.name,
                    lease_time.as_secs(),
                )));
            }
        }
        Ok(())
    }

    /// Writes the lease again each minute, on a thread of its own.
    fn begin_renewal(&mut self, began: SystemTime) -> io::Result<()> {
        let (end, ended) = channel::<()>();
        let (bucket, name) = (Arc::clone(&self.bucket), self.name.clone());
        let is_lost = Arc::clone(&self.is_lost);
        let mut renewed = began;
        let renewal = thread::Builder::new().name("lease".into()).spawn(move || {
            while ended
                .recv_timeout(RENEWAL_TIME)
                .is_err_and(|error| matches!(error, std::sync::mpsc::RecvTimeoutError::Timeout))
            {
                let now = SystemTime::now();
                match renew(&bucket, &name, renewed, now) {
                    Ok(true) => renewed = now,
                    Ok(false) => return is_lost.store(true, Ordering::Release),
                    // The next try may be in time.
                    Err(_) => {}
                }
            }
        })?;
        (self.end, self.renewal) = (Some(end), Some(renewal));
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.end.take());
        // A renewal that is under way would write the lease again behind its removal.
        if let Some(renewal) = self.renewal.take() {
            let _ = renewal.join();
        }
        // One that stays is nobody's after a while.
        let _ = self.bucket.remove(std::slice::from_ref(&self.name));
    }
}

/// Writes a lease again that is still the holder's; whether it is. The clock is one that goes on while a machine sleeps.
fn renew(bucket: &Bucket, name: &str, renewed: SystemTime, now: SystemTime) -> io::Result<bool> {
    let is_in_time = now
        .duration_since(renewed)
        .is_ok_and(|past| past <= HOLD_TIME);
    if !is_in_time || !bucket.is_there(name)? {
        return Ok(false);
    }
    bucket.write(name, &holder())?.wait()?;
    Ok(true)
}

/// Who holds a lease, for people to read.
fn holder() -> Vec<u8> {
    let name = rustix::system::uname();
    let host = name.nodename().to_string_lossy();
    format!("process {} on {host}\n", std::process::id()).into_bytes()
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    const TRIES_MAX: usize = 1_000_000;

    fn bucket() -> Arc<Bucket> {
        Arc::new(Bucket::over(Arc::new(InMemory::new()), "prefix").unwrap())
    }

    fn leases(bucket: &Bucket) -> usize {
        bucket.list(LEASES, usize::MAX).unwrap().len()
    }

    #[test]
    fn several_add_beside_each_other_and_one_removes_alone() {
        let bucket = bucket();
        let first = Lease::take(&bucket, Purpose::Add).unwrap();
        let second = Lease::take(&bucket, Purpose::Add).unwrap();
        let refused = Lease::take(&bucket, Purpose::Remove).err().unwrap();
        let who = format!("process {} on ", std::process::id());
        assert!(refused.to_string().contains(&who), "{refused}");
        assert!(refused.to_string().contains("leases/add-"), "{refused}");
        drop((first, second));
        assert_eq!(leases(&bucket), 0);
        let _remover = Lease::take(&bucket, Purpose::Remove).unwrap();
        for purpose in [Purpose::Add, Purpose::Remove] {
            let refused = Lease::take(&bucket, purpose).err().unwrap();
            assert!(refused.to_string().contains("leases/remove-"), "{refused}");
        }
        assert_eq!(leases(&bucket), 1);
    }

    #[test]
    fn a_lease_that_nobody_renews_is_nobodys_and_its_holder_learns_of_it() {
        let bucket = bucket();
        let old = Lease::take(&bucket, Purpose::Add).unwrap();
        old.check().unwrap();
        // As soon as the store's clock has gone on.
        let taken = (0..TRIES_MAX)
            .find_map(|_| Lease::take_beside(&bucket, Purpose::Remove, Duration::ZERO).ok());
        let new = taken.unwrap();
        assert_eq!(leases(&bucket), 1);
        new.check().unwrap();
        let lost = old.check().unwrap_err();
        assert_eq!(lost.kind(), io::ErrorKind::NotConnected);
        // It does not come back.
        let now = SystemTime::now();
        assert!(!renew(&bucket, &old.name, now, now).unwrap());
        assert_eq!(leases(&bucket), 1);
    }

    #[test]
    fn a_lease_is_renewed_in_time_or_not_at_all() {
        let bucket = bucket();
        let lease = Lease::take(&bucket, Purpose::Add).unwrap();
        let renewed = SystemTime::now();
        let after = |time| renew(&bucket, &lease.name, renewed, renewed + time).unwrap();
        assert!(after(Duration::ZERO) && after(RENEWAL_TIME) && after(HOLD_TIME));
        assert!(!after(HOLD_TIME + Duration::from_secs(1)));
        // A clock that was put back says nothing of how long it was.
        let before = renewed - Duration::from_secs(1);
        assert!(!renew(&bucket, &lease.name, renewed, before).unwrap());
    }
}
