use std::sync::atomic::AtomicU64;

use super::*;

/// Runs a job that makes two smaller jobs, which make further ones. Every worker takes part.
fn run(pool: &ScanPool<u32>, size: u32, done: &AtomicU64, limit: u64) {
    pool.push(0, size);
    std::thread::scope(|scope| {
        for worker in 0..pool.queues.len() {
            scope.spawn(move || {
                while let Some(job) = pool.wait(worker) {
                    for _ in 0..2 {
                        if job > 0 {
                            pool.push(worker, job - 1);
                        }
                    }
                    if done.fetch_add(1, Ordering::Relaxed) + 1 >= limit {
                        pool.stop();
                    }
                    pool.finish();
                }
            });
        }
    });
}

#[test]
fn every_job_is_done_once_and_then_all_workers_end() {
    for workers in [1, 2, 7] {
        let done = AtomicU64::new(0);
        run(&ScanPool::new(workers), 14, &done, u64::MAX);
        assert_eq!(done.into_inner(), (1 << 15) - 1);
    }
}

#[test]
fn workers_of_a_stopped_pool_end_with_jobs_left() {
    let done = AtomicU64::new(0);
    run(&ScanPool::new(4), 20, &done, 100);
    assert!((100..200).contains(&done.into_inner()));
}

#[test]
fn the_owner_takes_its_newest_job_and_a_thief_the_older_half() {
    let pool = ScanPool::new(2);
    for job in 1..=5 {
        pool.push(0, job);
    }
    assert_eq!(pool.take(0), Some(5));
    assert_eq!((pool.take(1), pool.take(1)), (Some(2), Some(1)));
    assert_eq!((pool.take(0), pool.take(0)), (Some(4), Some(3)));
    assert_eq!(pool.take(1), None);
}

#[test]
fn workers_are_asked_for_while_jobs_wait_and_up_to_their_number() {
    let pool = ScanPool::new(3);
    assert_eq!(pool.enlist(), None);
    pool.push(0, ());
    assert_eq!((pool.enlist(), pool.enlist(), pool.enlist()), (Some(1), Some(2), None));
}
