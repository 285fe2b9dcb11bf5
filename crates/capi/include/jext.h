/* jext: ext2, ext3 and ext4 in user space with the whole journal.
 *
 * Made by cbindgen from crates/capi; docs/how-to/c.md is the guide.
 *
 * Results: every call returns 0, or a negative number of errno: -ENOENT, -ENOSPC, ... Then
 * jext_last_error() has a message. -ENOTRECOVERABLE is a bug in the library.
 *
 * Pointers: NULL is refused with -EINVAL where it is not allowed. All others have to be valid for
 * their type during the call. Handles come from this library, and are not used after their close.
 * If a call that returns a handle fails, the handle is NULL.
 *
 * Structures: set struct_size to the size of the structure, and what you do not use to zero. New
 * versions add fields at the end; programs that were compiled before keep working.
 *
 * Threads: a volume, a device and a file may be used from several threads at a time; a directory
 * from one at a time. No thread may use what another one closes, apart from the files and
 * directories of a volume that is closed. The child of a fork cannot use volumes
 * and devices of its parent: -EPERM.
 *
 * Paths start at the root of the volume and are bytes, in no particular encoding. Permissions are
 * not checked.
 */

#ifndef JEXT_H
#define JEXT_H

#include <stddef.h>
#include <stdint.h>

/**
 * `flags` of struct jext_device_callbacks: nothing is written.
 */
#define JEXT_DEVICE_READ_ONLY 1

/**
 * `flags` of struct jext_device_callbacks: a write is durable when it returns, also after a power
 * cut. Such a device needs no flush.
 */
#define JEXT_DEVICE_WRITE_THROUGH 2

/**
 * `flags` of struct jext_device_callbacks: several threads may be in callbacks at a time.
 */
#define JEXT_DEVICE_CONCURRENT 4

/**
 * `flags` of struct jext_mkfs_options: what the image holds is replaced.
 */
#define JEXT_MKFS_FORCE 1

/**
 * `flags` of struct jext_mkfs_options: no blocks are reserved for root.
 */
#define JEXT_MKFS_NO_RESERVE 2

/**
 * `flags` of struct jext_mkfs_options: `created` is the time of the file system. Together with
 * `uuid` and `hash_seed` the same options give the same bytes.
 */
#define JEXT_MKFS_CREATED 4

/**
 * `flags` of struct jext_open_options: the image is not changed. A journal that has to be replayed
 * is replayed in memory.
 */
#define JEXT_OPEN_READ_ONLY 1

/**
 * `flags` of jext_rename: an existing target is not replaced.
 */
#define JEXT_RENAME_NOREPLACE 1

/**
 * `flags` of jext_rename: the two are exchanged; both have to exist.
 */
#define JEXT_RENAME_EXCHANGE 2

/**
 * `flags` of calls by path: a symbolic link at the end of the path is not followed.
 */
#define JEXT_NOFOLLOW 1

/**
 * `nanoseconds` of a time that is to be set: the current time.
 */
#define JEXT_TIME_NOW 1073741823

/**
 * `nanoseconds` of a time that is to be set: the time stays as it is.
 */
#define JEXT_TIME_OMIT 1073741822

/**
 * `flags` of jext_setxattr: an existing attribute is not replaced.
 */
#define JEXT_XATTR_CREATE 2

/**
 * `flags` of jext_setxattr: a missing attribute is not created.
 */
#define JEXT_XATTR_REPLACE 4

/**
 * `flags` of jext_file_open: for reading.
 */
#define JEXT_READ 1

/**
 * `flags` of jext_file_open: for writing.
 */
#define JEXT_WRITE 2

/**
 * `flags` of jext_file_open: every write goes to the end.
 */
#define JEXT_APPEND 4

/**
 * `flags` of jext_file_open: a missing file is created.
 */
#define JEXT_CREATE 8

/**
 * `flags` of jext_file_open: an existing file is refused.
 */
#define JEXT_EXCLUSIVE 16

/**
 * `flags` of jext_file_open: an existing file becomes empty.
 */
#define JEXT_TRUNCATE 32

/**
 * `flags` of jext_file_open: what was written is durable when the call returns.
 */
#define JEXT_SYNC 64

/**
 * A block device: an image file, a disk, a part of one, or callbacks.
 */
struct jext_device;

/**
 * An open directory. One thread uses it at a time.
 */
struct jext_dir;

/**
 * An open file.
 */
struct jext_file;

/**
 * An open file system.
 */
struct jext_volume;

/**
 * A block device of your own.
 *
 * The callbacks return 0 or a negative errno. -ENOSPC from `write` or `discard` says that the
 * storage is full, and that the callback changed nothing else; from `read` or `flush` it is a
 * failure as any other, -EIO for calls of the library.
 *
 * They are called by any thread that uses the volume and by threads of the library, one at a time
 * unless JEXT_DEVICE_CONCURRENT is set. They must not call the library for the same volume or
 * device, throw, or jump out.
 *
 * Offsets and counts are multiples of the sector size, and lie within the device. After a power
 * cut, each sector has either its last flushed contents or any that were written since.
 */
struct jext_device_callbacks {
    /**
     * sizeof(struct jext_device_callbacks).
     */
    size_t struct_size;
    /**
     * Passed to all callbacks.
     */
    void *context;
    /**
     * Name of the device for messages; NULL for "device".
     */
    const char *name;
    /**
     * Size in bytes, a multiple of the sector size.
     */
    uint64_t size;
    /**
     * Size of the unit that a write changes as a whole: 512 or 4096; 0 for 512.
     */
    uint32_t sector_size;
    /**
     * JEXT_DEVICE_READ_ONLY, JEXT_DEVICE_WRITE_THROUGH, JEXT_DEVICE_CONCURRENT.
     */
    uint32_t flags;
    /**
     * Reads `count` bytes at `offset`: all of them, or it fails.
     */
    int (*read)(void *context, void *buffer, size_t count, uint64_t offset);
    /**
     * Writes `count` bytes at `offset`: all of them, or it fails. NULL with JEXT_DEVICE_READ_ONLY.
     */
    int (*write)(void *context, const void *data, size_t count, uint64_t offset);
    /**
     * Makes durable what was written. Without it, and without JEXT_DEVICE_WRITE_THROUGH, the
     * device is only opened for reading.
     */
    int (*flush)(void *context);
    /**
     * Discards `count` bytes at `offset`, whose contents become undefined. May be NULL.
     */
    int (*discard)(void *context, uint64_t offset, uint64_t count);
    /**
     * Called once, after the last use of the device, and not in the child of a fork. May be NULL.
     */
    void (*close)(void *context);
};

/**
 * Options of a new file system, with the defaults of mke2fs(8). All zeros are the defaults.
 */
struct jext_mkfs_options {
    /**
     * sizeof(struct jext_mkfs_options).
     */
    size_t struct_size;
    /**
     * Size in bytes of the image file to be created, if there is none or it is empty.
     */
    uint64_t image_size;
    /**
     * First byte of the file system in the image or device.
     */
    uint64_t offset;
    /**
     * Length of the file system in bytes; 0 for the rest.
     */
    uint64_t length;
    /**
     * "ext2", "ext3" or "ext4"; NULL for ext4.
     */
    const char *type;
    /**
     * Label of at most 16 bytes; may be NULL.
     */
    const char *label;
    /**
     * Features to add, or to remove with ^, separated by commas: "^metadata_csum,quota"; may be
     * NULL.
     */
    const char *features;
    /**
     * The program that has to read an ext4, such as "grub" or "linux-4.19", which chooses the
     * features; may be NULL.
     */
    const char *target;
    /**
     * Usage type of mke2fs.conf(5), such as "news" or "largefile"; may be NULL.
     */
    const char *usage;
    /**
     * UUID of 16 bytes; NULL for a random one.
     */
    const uint8_t *uuid;
    /**
     * Seed of 16 bytes for the hashes of directories; NULL for a random one.
     */
    const uint8_t *hash_seed;
    /**
     * Time of the file system in seconds since 1970, with JEXT_MKFS_CREATED.
     */
    int64_t created;
    /**
     * Percentage of reserved blocks; 0 for 5 percent. JEXT_MKFS_NO_RESERVE reserves none.
     */
    double reserved_percent;
    /**
     * Size of a block in bytes: 1024, 2048 or 4096.
     */
    uint32_t block_size;
    /**
     * Size of an inode in bytes.
     */
    uint32_t inode_size;
    /**
     * Number of inodes.
     */
    uint32_t inode_count;
    /**
     * Number of bytes for each inode.
     */
    uint32_t bytes_per_inode;
    /**
     * Size of the journal in MiB.
     */
    uint32_t journal_mib;
    /**
     * User of the root directory.
     */
    uint32_t root_uid;
    /**
     * Group of the root directory.
     */
    uint32_t root_gid;
    /**
     * JEXT_MKFS_FORCE, JEXT_MKFS_NO_RESERVE, JEXT_MKFS_CREATED.
     */
    uint32_t flags;
};

/**
 * Options of a check. All zeros are the defaults.
 */
struct jext_check_options {
    /**
     * sizeof(struct jext_check_options).
     */
    size_t struct_size;
    /**
     * First byte of the file system in the image or device.
     */
    uint64_t offset;
    /**
     * Length of the file system in bytes; 0 for the rest.
     */
    uint64_t length;
    /**
     * Device of the external journal, for a file system that has one; may be NULL.
     */
    struct jext_device *journal;
};

/**
 * A problem that a check has found.
 */
struct jext_problem {
    /**
     * One line: number, place, fact.
     */
    const char *text;
    /**
     * Inode; 0 for none.
     */
    uint64_t inode;
    /**
     * Block; 0 for none.
     */
    uint64_t block;
    /**
     * Number of the kind of problem, which never changes its meaning.
     */
    uint32_t number;
    /**
     * Nonzero if the file system is not clean; 0 for a note.
     */
    uint32_t is_error;
};

/**
 * Receives a problem. The check stops reporting if it does not return 0.
 */
typedef int (*jext_problem_callback)(void *context, const struct jext_problem *problem);

/**
 * Options of an open. All zeros are the defaults.
 */
struct jext_open_options {
    /**
     * sizeof(struct jext_open_options).
     */
    size_t struct_size;
    /**
     * First byte of the file system in the image or device, such as the start of a partition.
     */
    uint64_t offset;
    /**
     * Length of that part in bytes; 0 for the rest.
     */
    uint64_t length;
    /**
     * Mount options, such as "data=journal,commit=30,noatime"; may be NULL.
     */
    const char *mount_options;
    /**
     * Device of the external journal, for a file system that has one; may be NULL.
     */
    struct jext_device *journal;
    /**
     * JEXT_OPEN_READ_ONLY.
     */
    uint32_t flags;
    /**
     * User that owns new files.
     */
    uint32_t uid;
    /**
     * Group that owns new files.
     */
    uint32_t gid;
    /**
     * Zero.
     */
    uint32_t reserved;
};

/**
 * State and space of a file system. Set struct_size before the call.
 */
struct jext_statfs {
    /**
     * sizeof(struct jext_statfs).
     */
    size_t struct_size;
    /**
     * Number of blocks that can hold data.
     */
    uint64_t blocks;
    /**
     * Number of free blocks, reserved ones included.
     */
    uint64_t blocks_free;
    /**
     * Number of free blocks that are not reserved.
     */
    uint64_t blocks_available;
    /**
     * Size of a block in bytes.
     */
    uint32_t block_size;
    /**
     * Maximum length of a name in bytes.
     */
    uint32_t name_max;
    /**
     * Number of inodes.
     */
    uint32_t inodes;
    /**
     * Number of free inodes.
     */
    uint32_t inodes_free;
    /**
     * Nonzero if the volume is, or has become, read-only.
     */
    uint32_t is_read_only;
    /**
     * Nonzero if damage is recorded in the superblock: a check is due.
     */
    uint32_t has_errors;
    /**
     * Number of transactions that the open has replayed.
     */
    uint32_t replayed_transactions;
    /**
     * Number of fast commits that the open has replayed.
     */
    uint32_t replayed_fast_commits;
    /**
     * UUID.
     */
    uint8_t uuid[16];
    /**
     * Label, which ends with a zero.
     */
    char label[24];
};

/**
 * A time since 1970.
 */
struct jext_time {
    /**
     * Seconds.
     */
    int64_t seconds;
    /**
     * Nanoseconds within the second; for jext_utimens also JEXT_TIME_NOW or JEXT_TIME_OMIT.
     */
    uint32_t nanoseconds;
    /**
     * Zero.
     */
    uint32_t reserved;
};

/**
 * Attributes of an inode. Set struct_size before the call.
 */
struct jext_stat {
    /**
     * sizeof(struct jext_stat).
     */
    size_t struct_size;
    /**
     * Inode number.
     */
    uint64_t inode;
    /**
     * Size in bytes.
     */
    uint64_t size;
    /**
     * Allocated space in units of 512 bytes.
     */
    uint64_t sectors;
    /**
     * Type and permissions, as st_mode of stat(2).
     */
    uint32_t mode;
    /**
     * Number of links.
     */
    uint32_t links;
    /**
     * User.
     */
    uint32_t uid;
    /**
     * Group.
     */
    uint32_t gid;
    /**
     * Major number of a device node.
     */
    uint32_t device_major;
    /**
     * Minor number of a device node.
     */
    uint32_t device_minor;
    /**
     * Inode flags, as lsattr(1) shows them.
     */
    uint32_t inode_flags;
    /**
     * Generation, which changes when the number of the inode is used again.
     */
    uint32_t generation;
    /**
     * Project.
     */
    uint32_t project;
    /**
     * Nonzero if the time of birth is stored.
     */
    uint32_t has_birth_time;
    /**
     * Time of the last access.
     */
    struct jext_time access_time;
    /**
     * Time of the last change of the contents.
     */
    struct jext_time modification_time;
    /**
     * Time of the last change of the inode.
     */
    struct jext_time change_time;
    /**
     * Time of birth.
     */
    struct jext_time birth_time;
};

/**
 * An entry of a directory.
 */
struct jext_dirent {
    /**
     * Inode number.
     */
    uint64_t inode;
    /**
     * The place behind the entry, for jext_dir_seek.
     */
    uint64_t cookie;
    /**
     * Name, which ends with a zero.
     */
    const char *name;
    /**
     * Length of the name in bytes.
     */
    uint32_t name_length;
    /**
     * Type, as the type bits of st_mode in stat(2); 0 if the file system does not store it here.
     */
    uint32_t type;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of the library, such as "0.1.0".
 */
const char *jext_version(void);

/**
 * Returns the message of the last call of this thread that failed: one line with the object, the
 * fact, and what to do. It is empty if no call has failed, and valid until the next call that
 * fails. Calls that succeed leave it as it is.
 */
const char *jext_last_error(void);

/**
 * Opens an image file or a block device of the host. `flags` is 0 or JEXT_DEVICE_READ_ONLY. The
 * image is locked against other programs: -EBUSY if one uses it.
 */
int jext_device_open(const char *path, uint32_t flags, struct jext_device **device);

/**
 * Makes a device of callbacks. The structure is copied. If this fails, `close` is not called.
 */
int jext_device_new(const struct jext_device_callbacks *callbacks, struct jext_device **device);

/**
 * Makes a device of the bytes from `offset` on of another, such as a partition; `length` 0 is the
 * rest. Both are multiples of the sector size. `whole` may be closed before the part.
 */
int jext_device_slice(struct jext_device *whole,
                      uint64_t offset,
                      uint64_t length,
                      struct jext_device **device);

/**
 * Gives up a device. The storage is closed when the volumes on it are, too. In the child of a fork
 * it stays open and locked for the parent, and the callback `close` is not called. NULL is
 * allowed.
 */
int jext_device_close(struct jext_device *device);

/**
 * Makes a file system in an image file or on a block device of the host. What it holds is not
 * replaced without JEXT_MKFS_FORCE: -EEXIST. `options` may be NULL.
 */
int jext_mkfs(const char *path, const struct jext_mkfs_options *options);

/**
 * Makes a file system on a device. What it holds is not replaced without JEXT_MKFS_FORCE: -EEXIST.
 * `options` may be NULL.
 */
int jext_mkfs_device(struct jext_device *device, const struct jext_mkfs_options *options);

/**
 * Checks a file system in an image file or on a block device of the host. Nothing is written: a
 * journal that has to be replayed is replayed in memory.
 *
 * Returns 0 if it is clean, -EUCLEAN if it is not, and another negative errno if it could not be
 * checked. `callback`, which may be NULL, receives all problems, notes included, after the check,
 * in the thread of the caller. `options` may be NULL.
 */
int jext_check(const char *path,
               const struct jext_check_options *options,
               jext_problem_callback callback,
               void *context);

/**
 * Checks the file system on a device, as jext_check.
 */
int jext_check_device(struct jext_device *device,
                      const struct jext_check_options *options,
                      jext_problem_callback callback,
                      void *context);

/**
 * Opens the file system in an image file or on a block device of the host: replays its journal,
 * unless it is clean. `options` may be NULL.
 */
int jext_volume_open(const char *path,
                     const struct jext_open_options *options,
                     struct jext_volume **volume);

/**
 * Opens the file system on a device, which may be closed before the volume. `options` may be NULL.
 */
int jext_volume_open_device(struct jext_device *device,
                            const struct jext_open_options *options,
                            struct jext_volume **volume);

/**
 * Writes everything and closes the volume. It waits for calls of other threads. Files and
 * directories that are still open give -EBADF from then on, and have to be closed, too. NULL is
 * allowed.
 *
 * The handle is gone in any case, also after an error: do not use it again, and do not close it a
 * second time. The image is unlocked. A result that is not 0 says that something could not be
 * written, and that the volume is as after a power cut: what was synced without an error is there,
 * later changes may be missing. Open the volume again, which replays its journal, and write again
 * what was not synced; after -EUCLEAN or -EBADMSG check it first, with jext_check. In the child of
 * a fork the result is -EPERM, and the volume of the parent stays as it is.
 */
int jext_volume_close(struct jext_volume *volume);

/**
 * Makes everything durable.
 */
int jext_volume_sync(struct jext_volume *volume);

/**
 * Discards free blocks, in extents of at least `least` bytes. `discarded`, which may be NULL,
 * becomes the number of bytes.
 */
int jext_volume_trim(struct jext_volume *volume, uint64_t least, uint64_t *discarded);

/**
 * Returns the state and the space of a file system.
 */
int jext_statfs(struct jext_volume *volume, struct jext_statfs *statfs);

/**
 * Creates a directory with the permissions of `mode`.
 */
int jext_mkdir(struct jext_volume *volume, const char *path, uint32_t mode);

/**
 * Creates a device node, a fifo, a socket or an empty regular file: `mode` has the type and the
 * permissions, `major` and `minor` the number of a device.
 */
int jext_mknod(struct jext_volume *volume,
               const char *path,
               uint32_t mode,
               uint32_t major,
               uint32_t minor);

/**
 * Removes an empty directory.
 */
int jext_rmdir(struct jext_volume *volume, const char *path);

/**
 * Removes a name that is not a directory. An open file stays until it is closed.
 */
int jext_unlink(struct jext_volume *volume, const char *path);

/**
 * Renames a path, in one step. An existing target is replaced as by rename(2), unless `flags` has
 * JEXT_RENAME_NOREPLACE or JEXT_RENAME_EXCHANGE.
 */
int jext_rename(struct jext_volume *volume, const char *from, const char *to, uint32_t flags);

/**
 * Adds a hard link to a file. A symbolic link at the end of `original` is not followed.
 */
int jext_link(struct jext_volume *volume, const char *original, const char *path);

/**
 * Creates a symbolic link at `path`, whose text is `target`.
 */
int jext_symlink(struct jext_volume *volume, const char *target, const char *path);

/**
 * Returns the text of a symbolic link, and a zero behind it. `length`, which may be NULL, becomes
 * the length without the zero, also if the result is -ERANGE because the buffer of `size` bytes is
 * too small.
 */
int jext_readlink(struct jext_volume *volume,
                  const char *path,
                  char *buffer,
                  size_t size,
                  size_t *length);

/**
 * Returns the attributes of a path. A symbolic link at its end is followed.
 */
int jext_stat(struct jext_volume *volume, const char *path, struct jext_stat *stat);

/**
 * Returns the attributes of a path. A symbolic link at its end is not followed.
 */
int jext_lstat(struct jext_volume *volume, const char *path, struct jext_stat *stat);

/**
 * Sets the permissions, with set-id and sticky bits. `flags` is 0 or JEXT_NOFOLLOW.
 */
int jext_chmod(struct jext_volume *volume, const char *path, uint32_t mode, uint32_t flags);

/**
 * Sets user and group; UINT32_MAX leaves one as it is. `flags` is 0 or JEXT_NOFOLLOW.
 */
int jext_chown(struct jext_volume *volume,
               const char *path,
               uint32_t uid,
               uint32_t gid,
               uint32_t flags);

/**
 * Sets the time of access to the first of `times`, and that of modification to the second. If it
 * is NULL, both become the current time. `flags` is 0 or JEXT_NOFOLLOW.
 */
int jext_utimens(struct jext_volume *volume,
                 const char *path,
                 const struct jext_time *times,
                 uint32_t flags);

/**
 * Sets the size of a regular file. A symbolic link at the end of the path is followed.
 */
int jext_truncate(struct jext_volume *volume, const char *path, uint64_t size);

/**
 * Returns the value of an extended attribute, such as "user.colour". `length`, which may be NULL,
 * becomes its length, also if the result is -ERANGE because the buffer of `size` bytes is too
 * small. With `size` 0 only the length is returned. `flags` is 0 or JEXT_NOFOLLOW. -ENODATA if
 * there is no such attribute.
 */
int jext_getxattr(struct jext_volume *volume,
                  const char *path,
                  const char *name,
                  void *value,
                  size_t size,
                  size_t *length,
                  uint32_t flags);

/**
 * Sets an extended attribute. `flags` has any of JEXT_NOFOLLOW and either JEXT_XATTR_CREATE or
 * JEXT_XATTR_REPLACE.
 */
int jext_setxattr(struct jext_volume *volume,
                  const char *path,
                  const char *name,
                  const void *value,
                  size_t size,
                  uint32_t flags);

/**
 * Returns the names of all extended attributes, each with a zero behind it. `length`, `size` and
 * `flags` are as for jext_getxattr.
 */
int jext_listxattr(struct jext_volume *volume,
                   const char *path,
                   char *names,
                   size_t size,
                   size_t *length,
                   uint32_t flags);

/**
 * Removes an extended attribute. `flags` is 0 or JEXT_NOFOLLOW.
 */
int jext_removexattr(struct jext_volume *volume,
                     const char *path,
                     const char *name,
                     uint32_t flags);

/**
 * Opens a regular file. `flags` has JEXT_READ, JEXT_WRITE or both, and any of the others. `mode`
 * is the permissions of a new file.
 */
int jext_file_open(struct jext_volume *volume,
                   const char *path,
                   uint32_t flags,
                   uint32_t mode,
                   struct jext_file **file);

/**
 * Closes a file. The file is gone in any case; a result that is not 0 says that an earlier write
 * failed. NULL is allowed.
 */
int jext_file_close(struct jext_file *file);

/**
 * Reads up to `count` bytes at the position, and advances it. `done` becomes their number: fewer
 * only at the end of the file.
 */
int jext_file_read(struct jext_file *file, void *buffer, size_t count, size_t *done);

/**
 * Reads up to `count` bytes at an offset. `done` becomes their number: fewer only at the end of
 * the file. The position stays.
 */
int jext_file_pread(struct jext_file *file,
                    void *buffer,
                    size_t count,
                    uint64_t offset,
                    size_t *done);

/**
 * Writes `count` bytes at the position, or at the end with JEXT_APPEND, and advances the position.
 * All are written unless the call fails; `done`, which may be NULL, becomes the number of those
 * that were.
 */
int jext_file_write(struct jext_file *file, const void *data, size_t count, size_t *done);

/**
 * Writes `count` bytes at an offset, or at the end with JEXT_APPEND. All are written unless the
 * call fails; `done`, which may be NULL, becomes the number of those that were. The position
 * stays.
 */
int jext_file_pwrite(struct jext_file *file,
                     const void *data,
                     size_t count,
                     uint64_t offset,
                     size_t *done);

/**
 * Moves the position by `offset` from the start, the position or the end: SEEK_SET, SEEK_CUR,
 * SEEK_END of stdio.h; or to the next data or hole from `offset` on: SEEK_DATA and SEEK_HOLE of
 * Linux, with -ENXIO if there is none. `position`, which may be NULL, becomes the new one.
 */
int jext_file_seek(struct jext_file *file, int64_t offset, int whence, uint64_t *position);

/**
 * Makes a file durable: contents and attributes, as fsync(2).
 */
int jext_file_sync(struct jext_file *file);

/**
 * Makes the contents of a file durable, as fdatasync(2).
 */
int jext_file_datasync(struct jext_file *file);

/**
 * Sets the size of a file that is open for writing.
 */
int jext_file_truncate(struct jext_file *file, uint64_t size);

/**
 * Returns the attributes of an open file.
 */
int jext_file_stat(struct jext_file *file, struct jext_stat *stat);

/**
 * Opens a directory, at its first entry.
 */
int jext_dir_open(struct jext_volume *volume, const char *path, struct jext_dir **dir);

/**
 * Returns the next entry, or NULL behind the last one. "." and ".." are left out. The entry is
 * valid until the next call for the directory. Entries that are added or removed meanwhile are
 * returned or not; all others are returned once.
 */
int jext_dir_read(struct jext_dir *dir, const struct jext_dirent **entry);

/**
 * Moves to a place of the directory: 0 for its start, or the cookie of an entry for the place
 * behind it. Cookies stay valid while the directory changes, and for other opens of it.
 */
int jext_dir_seek(struct jext_dir *dir, uint64_t cookie);

/**
 * Makes a directory durable: its entries, as fsync(2) of a directory.
 */
int jext_dir_sync(struct jext_dir *dir);

/**
 * Closes a directory. NULL is allowed.
 */
int jext_dir_close(struct jext_dir *dir);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* JEXT_H */
