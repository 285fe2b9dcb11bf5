/* Threads that share a volume and a file; devices that take one thread at a time, or several;
 * forked processes. */

#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, FILES = 25, RECORDS = 200 };

struct job {
    struct jext_volume *volume;
    struct jext_file *log;
    int number;
};

static void *work(void *argument)
{
    struct job *job = argument;
    char path[64], other[64], text[64];
    struct jext_stat stat = {0};
    int index;

    stat.struct_size = sizeof(stat);
    sprintf(path, "/%d", job->number);
    OK(jext_mkdir(job->volume, path, 0755));
    for (index = 0; index < FILES; index++) {
        sprintf(path, "/%d/%d", job->number, index);
        sprintf(text, "thread %d, file %d", job->number, index);
        OK(put(job->volume, path, text, strlen(text)));
        sprintf(other, "/moved-%d-%d", job->number, index);
        OK(jext_rename(job->volume, path, other, 0));
        expect_contents(job->volume, other, text, strlen(text));
        if (index % 2)
            OK(jext_unlink(job->volume, other));
        /* The message is that of this thread. */
        sprintf(other, "/missing-%d-%d", job->number, index);
        EXPECT(jext_stat(job->volume, other, &stat), -ENOENT);
        SAYS(other);
    }
    for (index = 0; index < RECORDS; index++) {
        memset(text, 'a' + job->number, 16);
        OK(jext_file_write(job->log, text, 16, NULL));
    }
    return NULL;
}

static void share(uint32_t flags)
{
    struct disk disk;
    struct jext_device_callbacks callbacks;
    struct jext_device *device;
    struct jext_volume *volume;
    struct jext_file *log;
    struct job jobs[THREADS];
    pthread_t threads[THREADS];
    char record[16];
    size_t done;
    int counts[THREADS] = {0};
    int index;

    disk_init(&disk, 16 << 20);
    callbacks = disk_callbacks(&disk);
    callbacks.flags = flags;
    OK(jext_device_new(&callbacks, &device));
    OK(jext_mkfs_device(device, NULL));
    OK(jext_volume_open_device(device, NULL, &volume));
    OK(jext_file_open(volume, "/log", JEXT_READ | JEXT_WRITE | JEXT_CREATE, 0644, &log));
    for (index = 0; index < THREADS; index++) {
        jobs[index].volume = volume;
        jobs[index].log = log;
        jobs[index].number = index;
        ASSERT(pthread_create(&threads[index], NULL, work, &jobs[index]) == 0);
    }
    for (index = 0; index < THREADS; index++)
        ASSERT(pthread_join(threads[index], NULL) == 0);

    /* Writes at the shared position are whole, and none is lost. */
    OK(jext_file_seek(log, 0, SEEK_SET, NULL));
    while (jext_file_read(log, record, sizeof(record), &done) == 0 && done > 0) {
        ASSERT(done == sizeof(record) && record[0] == record[15]);
        counts[record[0] - 'a']++;
    }
    for (index = 0; index < THREADS; index++)
        ASSERT(counts[index] == RECORDS);
    OK(jext_file_close(log));
    OK(jext_volume_close(volume));
    OK(jext_check_device(device, NULL, NULL, NULL));
    OK(jext_device_close(device));
    ASSERT(disk.closes == 1);
    if (!(flags & JEXT_DEVICE_CONCURRENT))
        ASSERT(disk.inside_max == 1);
    disk_free(&disk);
}

/* A forked child gets an error, and does not hang. */
static void child(void)
{
    struct disk disk;
    struct jext_device *device;
    struct jext_volume *volume;
    int status;
    pid_t process;

    disk_init(&disk, 8 << 20);
    device = disk_device(&disk);
    OK(jext_mkfs_device(device, NULL));
    OK(jext_volume_open_device(device, NULL, &volume));
    process = fork();
    ASSERT(process >= 0);
    if (process == 0) {
        EXPECT(jext_mkdir(volume, "/d", 0755), -EPERM);
        SAYS("forked");
        raise(SIGKILL); /* the memory of the parent is no leak of the child */
    }
    ASSERT(waitpid(process, &status, 0) == process);
    ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    OK(jext_mkdir(volume, "/d", 0755));
    OK(jext_volume_close(volume));
    OK(jext_device_close(device));
    disk_free(&disk);
}

/* A forked child leaves the lock of an image to its parent, and cannot pass it by. */
static void locked(void)
{
    struct jext_mkfs_options mkfs = {0};
    struct jext_device *device, *other;
    struct jext_volume *volume;
    int status, index;
    pid_t process;

    mkfs.struct_size = sizeof(mkfs);
    mkfs.image_size = 8 << 20;
    OK(jext_mkfs("disk.img", &mkfs));
    OK(jext_device_open("disk.img", 0, &device));
    process = fork();
    ASSERT(process >= 0);
    if (process == 0) {
        EXPECT(jext_volume_open_device(device, NULL, &volume), -EPERM);
        SAYS("the device belongs to process ");
        OK(jext_device_close(device));
        raise(SIGKILL);
    }
    ASSERT(waitpid(process, &status, 0) == process);
    ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT(jext_device_open("disk.img", 0, &other), -EBUSY);

    OK(jext_volume_open_device(device, NULL, &volume));
    process = fork();
    ASSERT(process >= 0);
    if (process == 0) {
        EXPECT(jext_volume_close(volume), -EPERM);
        OK(jext_device_close(device));
        raise(SIGKILL);
    }
    ASSERT(waitpid(process, &status, 0) == process);
    EXPECT(jext_device_open("disk.img", 0, &other), -EBUSY);
    OK(jext_volume_close(volume));
    OK(jext_device_close(device));
    for (index = 0; index < 2; index++) {
        OK(jext_device_open("disk.img", 0, &other));
        OK(jext_device_close(other));
    }
}

/* Appends until the volume is closed: a call writes all and succeeds, or fails and writes nothing. */
static void *append(void *argument)
{
    struct jext_file *file = argument;
    int result;

    do {
        size_t done = 0;
        result = jext_file_write(file, "appended", 8, &done);
        ASSERT(result == 0 ? done == 8 : result == -EBADF && done == 0);
    } while (result == 0);
    OK(jext_file_close(file));
    return NULL;
}

/* A close waits for whole writes, which report what they have written. */
static void closed_behind(void)
{
    struct disk disk;
    struct jext_device *device;
    struct jext_volume *volume;
    struct jext_file *file;
    pthread_t threads[2];
    int round, index;

    disk_init(&disk, 8 << 20);
    device = disk_device(&disk);
    OK(jext_mkfs_device(device, NULL));
    for (round = 0; round < 30; round++) {
        OK(jext_volume_open_device(device, NULL, &volume));
        for (index = 0; index < 2; index++) {
            const char *path = index ? "/g" : "/f";
            int flags = JEXT_WRITE | JEXT_APPEND | JEXT_CREATE | JEXT_TRUNCATE;
            OK(jext_file_open(volume, path, flags, 0644, &file));
            ASSERT(pthread_create(&threads[index], NULL, append, file) == 0);
        }
        usleep(2000);
        OK(jext_volume_close(volume));
        for (index = 0; index < 2; index++)
            ASSERT(pthread_join(threads[index], NULL) == 0);
    }
    OK(jext_device_close(device));
    disk_free(&disk);
}

int main(void)
{
    share(0);
    share(JEXT_DEVICE_CONCURRENT);
    child();
    locked();
    closed_behind();
    passed("threads");
    return 0;
}
