//! On which processors processes run: so that two of them do not share any, as if
//! they were on two machines. Knows nothing of what runs.

use std::{fs, io};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

/// The processors of this process, in two halves; none if it has one alone.
pub fn halves() -> io::Result<Option<(CpuSet, CpuSet)>> {
    let all = sched_getaffinity(None)?;
    let (mut first, mut second) = (CpuSet::new(), CpuSet::new());
    let count = all.count();
    let here = (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor));
    for (number, processor) in here.enumerate() {
        if (number as u32) < count / 2 { first.set(processor) } else { second.set(processor) }
    }
    Ok((count > 1).then_some((first, second)))
}

/// Has a process run on these alone, with all threads that it has, or will have.
///
/// Errors: there is no such process, or it may not run there.
pub fn keep(process: u32, processors: &CpuSet) -> io::Result<()> {
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let name = thread?.file_name();
        let id = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("a thread without a number"))?;
        match sched_setaffinity(Some(id), processors) {
            // It has ended meanwhile.
            Err(rustix::io::Errno::SRCH) => {}
            other => other?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_all_and_have_nothing_in_common() {
        let all = sched_getaffinity(None).expect("this process has processors");
        let Some((first, second)) = halves().expect("this process has processors") else {
            assert_eq!(all.count(), 1);
            return;
        };
        let both = |processor| first.is_set(processor) && second.is_set(processor);
        assert_eq!(first.count() + second.count(), all.count());
        assert!(!(0..CpuSet::MAX_CPU).any(both));
        assert!(second.count().abs_diff(first.count()) <= 1);
    }
}
