/* Makes the disk fail for one program that is started with this library
 * (LD_PRELOAD), below its working directory at the start. While the file that
 * FAULTY_DISK names says "read-only", whatever would write is refused; while it
 * says "stall", no sync returns. Knows nothing of the program. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[PATH_MAX];

__attribute__((constructor)) static void start(void) {
    if (!getcwd(home, sizeof home)) home[0] = 0;
}

/* The next function of this name: the real one. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is(const char *fault) {
    char said[16] = "";
    const char *path = getenv("FAULTY_DISK");
    int file = path ? REAL(open)(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, said, sizeof said - 1);
    close(file);
    return length > 0 && strcmp(said, fault) == 0;
}

static int on_disk(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    return length > 0 && home[0] && strncmp(path, home, strlen(home)) == 0 && !strstr(path, "leasehold-server.");
}

/* Refuses, if it is to; -1 is what every refused call answers. */
static int refuses(int file) {
    if (!on_disk(file) || !is("read-only")) return 0;
    errno = EROFS;
    return 1;
}

static void stall(int file) {
    while (on_disk(file) && is("stall")) usleep(10 * 1000);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    return refuses(file) ? -1 : REAL(pwrite64)(file, bytes, count, at);
}

ssize_t write(int file, const void *bytes, size_t count) {
    return refuses(file) ? -1 : REAL(write)(file, bytes, count);
}

int ftruncate64(int file, off64_t length) {
    return refuses(file) ? -1 : REAL(ftruncate64)(file, length);
}

int fsync(int file) {
    stall(file);
    return refuses(file) ? -1 : REAL(fsync)(file);
}

int fdatasync(int file) {
    stall(file);
    return refuses(file) ? -1 : REAL(fdatasync)(file);
}

int sync_file_range(int file, off64_t from, off64_t count, unsigned int flags) {
    stall(file);
    return refuses(file) ? -1 : REAL(sync_file_range)(file, from, count, flags);
}

/* Nobody opens a file for writing on a disk that is read-only. */
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if ((flags & O_ACCMODE) != O_RDONLY && strncmp(path, home, strlen(home)) == 0 && is("read-only")) {
        errno = EROFS;
        return -1;
    }
    return REAL(open64)(path, flags, mode);
}
