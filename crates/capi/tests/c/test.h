/* Assertions of the test programs, and a disk in memory that breaks as a test wants. */

#ifndef TEST_H
#define TEST_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jext.h>

/* Not every program uses every helper. */
#define MAYBE_UNUSED __attribute__((unused))

/* Ends the program unless a fact holds. */
#define ASSERT(fact)                                                                              \
    do {                                                                                          \
        if (!(fact)) {                                                                            \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #fact,             \
                    jext_last_error());                                                           \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* Ends the program unless a call succeeds. */
#define OK(call) EXPECT(call, 0)

/* Ends the program unless a call has this result. */
#define EXPECT(call, expected)                                                                    \
    do {                                                                                          \
        int result_ = (call);                                                                     \
        if (result_ != (expected)) {                                                              \
            fprintf(stderr, "%s:%d: %s is %d, not %d; last error: %s\n", __FILE__, __LINE__,      \
                    #call, result_, (int)(expected), jext_last_error());                          \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* Ends the program unless the message of the last error has this part. */
#define SAYS(part) ASSERT(strstr(jext_last_error(), part) != NULL)

/* A disk in memory with a volatile cache. */
struct disk {
    size_t size;
    char *current; /* what reads return */
    char *durable; /* what a power cut leaves */
    pthread_mutex_t lock;
    long writes_left;  /* writes until all calls fail; negative for no failure */
    int error;         /* what they fail with */
    int result_broken; /* nonzero: callbacks return this positive number */
    size_t unit;       /* requests have to be aligned to this */
    long reads, writes, flushes, discards, closes;
    int inside, inside_max; /* threads that are in callbacks */
};

MAYBE_UNUSED static void disk_enter(struct disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    disk->inside++;
    if (disk->inside > disk->inside_max)
        disk->inside_max = disk->inside;
    pthread_mutex_unlock(&disk->lock);
}

MAYBE_UNUSED static int disk_leave(struct disk *disk, int result)
{
    pthread_mutex_lock(&disk->lock);
    disk->inside--;
    pthread_mutex_unlock(&disk->lock);
    return result;
}

MAYBE_UNUSED static int disk_state(struct disk *disk)
{
    if (disk->result_broken)
        return disk->result_broken;
    return disk->writes_left == 0 ? disk->error : 0;
}

MAYBE_UNUSED static int disk_read(void *context, void *buffer, size_t count, uint64_t offset)
{
    struct disk *disk = context;
    disk_enter(disk);
    disk->reads++;
    ASSERT(count % disk->unit == 0 && offset % disk->unit == 0);
    ASSERT(count > 0 && offset + count <= disk->size);
    if (disk_state(disk) != 0)
        return disk_leave(disk, disk_state(disk));
    memcpy(buffer, disk->current + offset, count);
    return disk_leave(disk, 0);
}

MAYBE_UNUSED static int disk_write(void *context, const void *data, size_t count, uint64_t offset)
{
    struct disk *disk = context;
    disk_enter(disk);
    disk->writes++;
    ASSERT(count % disk->unit == 0 && offset % disk->unit == 0);
    ASSERT(count > 0 && offset + count <= disk->size);
    if (disk_state(disk) != 0)
        return disk_leave(disk, disk_state(disk));
    if (disk->writes_left > 0)
        disk->writes_left--;
    memcpy(disk->current + offset, data, count);
    return disk_leave(disk, 0);
}

MAYBE_UNUSED static int disk_flush(void *context)
{
    struct disk *disk = context;
    disk_enter(disk);
    disk->flushes++;
    if (disk_state(disk) != 0)
        return disk_leave(disk, disk_state(disk));
    pthread_mutex_lock(&disk->lock);
    memcpy(disk->durable, disk->current, disk->size);
    pthread_mutex_unlock(&disk->lock);
    return disk_leave(disk, 0);
}

MAYBE_UNUSED static int disk_discard(void *context, uint64_t offset, uint64_t count)
{
    struct disk *disk = context;
    disk_enter(disk);
    disk->discards++;
    ASSERT(count % disk->unit == 0 && offset % disk->unit == 0);
    ASSERT(count > 0 && offset + count <= disk->size);
    memset(disk->current + offset, 0xEE, count);
    return disk_leave(disk, 0);
}

MAYBE_UNUSED static void disk_close(void *context)
{
    struct disk *disk = context;
    disk->closes++;
}

MAYBE_UNUSED static void disk_init(struct disk *disk, size_t size)
{
    memset(disk, 0, sizeof(*disk));
    disk->size = size;
    disk->current = calloc(1, size);
    disk->durable = calloc(1, size);
    disk->writes_left = -1;
    disk->error = -EIO;
    disk->unit = 512;
    pthread_mutex_init(&disk->lock, NULL);
}

MAYBE_UNUSED static void disk_free(struct disk *disk)
{
    free(disk->current);
    free(disk->durable);
    pthread_mutex_destroy(&disk->lock);
}

MAYBE_UNUSED static struct jext_device_callbacks disk_callbacks(struct disk *disk)
{
    struct jext_device_callbacks callbacks;
    memset(&callbacks, 0, sizeof(callbacks));
    callbacks.struct_size = sizeof(callbacks);
    callbacks.context = disk;
    callbacks.name = "disk";
    callbacks.size = disk->size;
    callbacks.sector_size = (uint32_t)disk->unit;
    callbacks.read = disk_read;
    callbacks.write = disk_write;
    callbacks.flush = disk_flush;
    callbacks.discard = disk_discard;
    callbacks.close = disk_close;
    return callbacks;
}

MAYBE_UNUSED static struct jext_device *disk_device(struct disk *disk)
{
    struct jext_device_callbacks callbacks = disk_callbacks(disk);
    struct jext_device *device;
    OK(jext_device_new(&callbacks, &device));
    return device;
}

/* Writes a file and makes it durable. Returns the first result that is not 0. */
MAYBE_UNUSED static int put(struct jext_volume *volume, const char *path, const void *data, size_t count)
{
    struct jext_file *file;
    int result, closed;

    result = jext_file_open(volume, path, JEXT_WRITE | JEXT_CREATE | JEXT_TRUNCATE, 0644, &file);
    if (result < 0)
        return result;
    result = jext_file_write(file, data, count, NULL);
    if (result == 0)
        result = jext_file_sync(file);
    closed = jext_file_close(file);
    return result < 0 ? result : closed;
}

/* Ends the program unless a file has these contents. */
MAYBE_UNUSED static void expect_contents(struct jext_volume *volume, const char *path, const void *data,
                            size_t count)
{
    struct jext_file *file;
    char *found = malloc(count + 1);
    size_t done;

    OK(jext_file_open(volume, path, JEXT_READ, 0, &file));
    OK(jext_file_read(file, found, count + 1, &done));
    ASSERT(done == count && memcmp(found, data, count) == 0);
    OK(jext_file_close(file));
    free(found);
}

MAYBE_UNUSED static void passed(const char *name)
{
    printf("%s: passed\n", name);
}

#endif
