/* Every call does its work. */

#include "test.h"

#include <sys/stat.h>

/* True after a call that succeeds, for conditions of loops. */
#define OKAY(call) okay((call), #call)

static int okay(int result, const char *call)
{
    if (result != 0)
        fprintf(stderr, "%s: %s\n", call, jext_last_error());
    ASSERT(result == 0);
    return 1;
}

static struct jext_stat look(struct jext_volume *volume, const char *path)
{
    struct jext_stat stat = {0};
    stat.struct_size = sizeof(stat);
    OK(jext_lstat(volume, path, &stat));
    return stat;
}

static void tree(struct jext_volume *volume)
{
    struct jext_stat stat = {0};
    char text[16];
    size_t length;

    OK(jext_mkdir(volume, "/d", 01755));
    stat = look(volume, "/d");
    ASSERT(stat.mode == (S_IFDIR | 01755) && stat.uid == 7 && stat.gid == 8);
    OK(put(volume, "/d/a", "a", 1));
    OK(jext_link(volume, "/d/a", "/d/b"));
    ASSERT(look(volume, "/d/b").links == 2);
    EXPECT(jext_rename(volume, "/d/a", "/d/b", JEXT_RENAME_NOREPLACE), -EEXIST);
    OK(put(volume, "/c", "cc", 2));
    OK(jext_rename(volume, "/c", "/d/a", JEXT_RENAME_EXCHANGE));
    expect_contents(volume, "/c", "a", 1);
    OK(jext_rename(volume, "/d/a", "/d/b", 0));
    expect_contents(volume, "/d/b", "cc", 2);
    EXPECT(jext_rmdir(volume, "/d"), -ENOTEMPTY);
    OK(jext_unlink(volume, "/d/b"));
    OK(jext_rmdir(volume, "/d"));
    EXPECT(jext_unlink(volume, "/d"), -ENOENT);

    OK(jext_symlink(volume, "../c", "/link"));
    EXPECT(jext_readlink(volume, "/link", text, 4, &length), -ERANGE);
    ASSERT(length == 4);
    OK(jext_readlink(volume, "/link", text, 5, NULL));
    ASSERT(strcmp(text, "../c") == 0);
    EXPECT(jext_readlink(volume, "/c", text, sizeof(text), NULL), -EINVAL);
    ASSERT(S_ISLNK(look(volume, "/link").mode));
    stat.struct_size = sizeof(stat);
    OK(jext_stat(volume, "/link", &stat));
    ASSERT(S_ISREG(stat.mode) && stat.size == 1);

    OK(jext_mknod(volume, "/null", S_IFCHR | 0666, 1, 3));
    stat = look(volume, "/null");
    ASSERT(S_ISCHR(stat.mode) && stat.device_major == 1 && stat.device_minor == 3);
    OK(jext_mknod(volume, "/fifo", S_IFIFO | 0600, 0, 0));
}

static void attributes(struct jext_volume *volume)
{
    struct jext_time times[2] = {{-1, 5, 0}, {0, JEXT_TIME_OMIT, 0}};
    struct jext_stat before = look(volume, "/c"), stat;

    OK(jext_chmod(volume, "/link", 0600, 0));
    OK(jext_chown(volume, "/c", 100000, UINT32_MAX, 0));
    OK(jext_chown(volume, "/link", UINT32_MAX, 9, JEXT_NOFOLLOW));
    OK(jext_utimens(volume, "/c", times, 0));
    stat = look(volume, "/c");
    ASSERT(stat.mode == (S_IFREG | 0600) && stat.uid == 100000 && stat.gid == 8);
    ASSERT(stat.access_time.seconds == -1 && stat.access_time.nanoseconds == 5);
    ASSERT(memcmp(&stat.modification_time, &before.modification_time, sizeof(*times)) == 0);
    ASSERT(stat.has_birth_time && stat.birth_time.seconds == before.birth_time.seconds);
    ASSERT(look(volume, "/link").gid == 9);
    OK(jext_utimens(volume, "/c", NULL, 0));
    ASSERT(look(volume, "/c").access_time.seconds > 1000000000);
    OK(jext_truncate(volume, "/c", 5));
    expect_contents(volume, "/c", "a\0\0\0\0", 5);
}

static void extended(struct jext_volume *volume)
{
    char value[8], names[64];
    size_t length;

    OK(jext_setxattr(volume, "/c", "user.a", "12345", 5, 0));
    EXPECT(jext_setxattr(volume, "/c", "user.a", "", 0, JEXT_XATTR_CREATE), -EEXIST);
    EXPECT(jext_setxattr(volume, "/c", "user.b", "", 0, JEXT_XATTR_REPLACE), -ENODATA);
    OK(jext_setxattr(volume, "/c", "user.b", NULL, 0, 0));
    OK(jext_getxattr(volume, "/c", "user.a", NULL, 0, &length, 0));
    ASSERT(length == 5);
    EXPECT(jext_getxattr(volume, "/c", "user.a", value, 4, &length, 0), -ERANGE);
    OK(jext_getxattr(volume, "/link", "user.a", value, sizeof(value), &length, 0));
    ASSERT(length == 5 && memcmp(value, "12345", 5) == 0);
    EXPECT(jext_getxattr(volume, "/link", "user.a", NULL, 0, NULL, JEXT_NOFOLLOW), -ENODATA);
    OK(jext_listxattr(volume, "/c", names, sizeof(names), &length, 0));
    ASSERT(length == 14 && memcmp(names, "user.a\0user.b\0", 14) == 0);
    OK(jext_removexattr(volume, "/c", "user.a", 0));
    EXPECT(jext_removexattr(volume, "/c", "user.a", 0), -ENODATA);
}

static void files(struct jext_volume *volume)
{
    const uint32_t flags = JEXT_READ | JEXT_WRITE | JEXT_CREATE | JEXT_EXCLUSIVE;
    struct jext_stat stat = {0};
    struct jext_file *file, *again;
    char text[16];
    size_t done;
    uint64_t position;

    OK(jext_file_open(volume, "/file", flags, 0640, &file));
    EXPECT(jext_file_open(volume, "/file", flags, 0640, &again), -EEXIST);
    OK(jext_file_write(file, "hello", 5, &done));
    ASSERT(done == 5);
    OK(jext_file_pwrite(file, "J", 1, 0, NULL));
    OK(jext_file_write(file, " world", 6, NULL));
    OK(jext_file_seek(file, -5, SEEK_END, &position));
    ASSERT(position == 6);
    OK(jext_file_read(file, text, sizeof(text), &done));
    ASSERT(done == 5 && memcmp(text, "world", 5) == 0);
    OK(jext_file_read(file, text, sizeof(text), &done));
    ASSERT(done == 0);
    OK(jext_file_pread(file, text, 5, 0, &done));
    ASSERT(done == 5 && memcmp(text, "Jello", 5) == 0);
    EXPECT(jext_file_seek(file, -1, SEEK_SET, NULL), -EINVAL);
    EXPECT(jext_file_seek(file, 0, 77, NULL), -EINVAL);
    OK(jext_file_seek(file, 1 << 20, SEEK_SET, NULL));
    OK(jext_file_write(file, "far", 3, NULL));
    OK(jext_file_sync(file));
    OK(jext_file_seek(file, 4096, 3 /* SEEK_DATA */, &position));
    ASSERT(position == 1 << 20);
    OK(jext_file_seek(file, 0, 4 /* SEEK_HOLE */, &position));
    ASSERT(position > 0 && position < 1 << 20);
    EXPECT(jext_file_seek(file, 2 << 20, 3, NULL), -ENXIO);
    OK(jext_file_truncate(file, 3));
    OK(jext_file_datasync(file));
    stat.struct_size = sizeof(stat);
    OK(jext_file_stat(file, &stat));
    ASSERT(stat.size == 3 && stat.mode == (S_IFREG | 0640));

    OK(jext_file_open(volume, "/file", JEXT_WRITE | JEXT_APPEND | JEXT_SYNC, 0, &again));
    OK(jext_file_write(again, "p!", 2, NULL));
    OK(jext_file_seek(again, 0, SEEK_CUR, &position));
    ASSERT(position == 5);
    EXPECT(jext_file_read(again, text, 1, &done), -EBADF);
    OK(jext_file_close(again));
    expect_contents(volume, "/file", "Jelp!", 5);

    /* A removed file stays until it is closed. */
    OK(jext_unlink(volume, "/file"));
    OK(jext_file_pread(file, text, sizeof(text), 0, &done));
    ASSERT(done == 5);
    OK(jext_file_close(file));
}

static void directories(struct jext_volume *volume)
{
    enum { COUNT = 500 };
    const struct jext_dirent *entry;
    struct jext_dir *dir;
    char path[32], seen[COUNT];
    uint64_t middle = 0;
    int index, count, behind = 0;

    OK(jext_mkdir(volume, "/many", 0755));
    for (index = 0; index < COUNT; index++) {
        sprintf(path, "/many/%d", index);
        OK(jext_mknod(volume, path, S_IFREG | 0644, 0, 0));
    }
    memset(seen, 0, sizeof(seen));
    OK(jext_dir_open(volume, "/many", &dir));
    for (count = 0; OKAY(jext_dir_read(dir, &entry)) && entry != NULL; count++) {
        index = atoi(entry->name);
        ASSERT(seen[index]++ == 0 && strlen(entry->name) == entry->name_length);
        ASSERT(entry->type == S_IFREG && entry->inode > 10);
        if (count == COUNT / 2)
            middle = entry->cookie;
        behind += count > COUNT / 2;
    }
    ASSERT(count == COUNT);
    OK(jext_dir_read(dir, &entry));
    ASSERT(entry == NULL);

    /* A cookie leads to the entries behind, also after the removal of others. */
    OK(jext_unlink(volume, "/many/0"));
    OK(jext_dir_seek(dir, middle));
    for (count = 0; OKAY(jext_dir_read(dir, &entry)) && entry != NULL; count++)
        ASSERT(seen[atoi(entry->name)] == 1);
    ASSERT(count == behind || count == behind - 1);
    OK(jext_dir_sync(dir));
    OK(jext_dir_close(dir));
    EXPECT(jext_dir_open(volume, "/c", &dir), -ENOTDIR);
}

/* Partitions, labels, and the same bytes for the same options. */
static void images(void)
{
    const uint8_t uuid[16] = {1, 2, 3}, seed[16] = {4, 5, 6};
    struct jext_mkfs_options mkfs = {0};
    struct jext_open_options options = {0};
    struct jext_check_options check = {0};
    struct jext_statfs statfs = {0};
    struct jext_volume *volume;
    struct disk first, second;
    struct disk *disks[2];
    struct jext_device *device;
    int index;

    mkfs.struct_size = sizeof(mkfs);
    mkfs.offset = 1 << 20;
    mkfs.length = 16 << 20;
    mkfs.type = "ext3";
    mkfs.label = "sixteen bytes ok";
    mkfs.uuid = uuid;
    mkfs.hash_seed = seed;
    mkfs.created = 1000000000;
    mkfs.block_size = 1024;
    mkfs.flags = JEXT_MKFS_CREATED | JEXT_MKFS_NO_RESERVE;
    disks[0] = &first;
    disks[1] = &second;
    for (index = 0; index < 2; index++) {
        disk_init(disks[index], 20 << 20);
        device = disk_device(disks[index]);
        OK(jext_mkfs_device(device, &mkfs));
        OK(jext_device_close(device));
    }
    ASSERT(memcmp(first.current, second.current, first.size) == 0);

    device = disk_device(&first);
    EXPECT(jext_mkfs_device(device, &mkfs), -EEXIST);
    check.struct_size = sizeof(check);
    check.offset = mkfs.offset;
    check.length = mkfs.length;
    OK(jext_check_device(device, &check, NULL, NULL));
    options.struct_size = sizeof(options);
    options.offset = mkfs.offset;
    options.flags = JEXT_OPEN_READ_ONLY;
    OK(jext_volume_open_device(device, &options, &volume));
    OK(jext_device_close(device));
    statfs.struct_size = sizeof(statfs);
    OK(jext_statfs(volume, &statfs));
    ASSERT(strcmp(statfs.label, mkfs.label) == 0);
    ASSERT(memcmp(statfs.uuid, uuid, sizeof(uuid)) == 0);
    ASSERT(statfs.is_read_only && statfs.block_size == 1024 && !statfs.has_errors);
    ASSERT(statfs.blocks_free == statfs.blocks_available && statfs.inodes_free < statfs.inodes);
    EXPECT(jext_mkdir(volume, "/d", 0755), -EROFS);
    ASSERT(first.closes == 1);
    OK(jext_volume_close(volume));
    ASSERT(first.closes == 2);
    disk_free(&first);
    disk_free(&second);
}

int main(int argc, char **argv)
{
    struct jext_mkfs_options mkfs = {0};
    struct jext_open_options options = {0};
    struct jext_volume *volume;
    struct jext_file *file;
    struct jext_dir *dir;
    char byte;
    size_t done;

    ASSERT(argc == 2);
    mkfs.struct_size = sizeof(mkfs);
    mkfs.image_size = 32 << 20;
    OK(jext_mkfs(argv[1], &mkfs));
    options.struct_size = sizeof(options);
    options.uid = 7;
    options.gid = 8;
    OK(jext_volume_open(argv[1], &options, &volume));
    tree(volume);
    attributes(volume);
    extended(volume);
    files(volume);
    directories(volume);
    images();
    OK(jext_volume_sync(volume));

    /* What is open when the volume closes fails from then on. */
    OK(jext_file_open(volume, "/c", JEXT_READ, 0, &file));
    OK(jext_dir_open(volume, "/", &dir));
    OK(jext_volume_close(volume));
    EXPECT(jext_file_read(file, &byte, 1, &done), -EBADF);
    SAYS("/c: the volume is closed");
    OK(jext_file_close(file));
    EXPECT(jext_dir_sync(dir), -EBADF);
    OK(jext_dir_close(dir));
    OK(jext_check(argv[1], NULL, NULL, NULL));
    passed("calls");
    return 0;
}
