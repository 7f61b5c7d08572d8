/* The wall clock jumps every five seconds, by nine hours ahead and by a day back; the steady clock does not. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void shift(struct timespec *now) {
    static const long hours[] = {0, 9, -21};
    struct timespec steady;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
    now->tv_sec += 3600 * hours[steady.tv_sec / 5 % 3];
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        shift(now);
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
