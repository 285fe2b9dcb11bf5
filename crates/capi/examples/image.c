/* Makes an image, fills it, reads it back and checks it. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jext.h>

static void check(int result)
{
    if (result < 0) {
        fprintf(stderr, "image: %s\n", jext_last_error());
        exit(1);
    }
}

static void fill(struct jext_volume *volume)
{
    const char text[] = "Dear all,\n";
    struct jext_file *letter;

    check(jext_mkdir(volume, "/mail", 0755));
    check(jext_file_open(volume, "/mail/letter", JEXT_WRITE | JEXT_CREATE, 0644, &letter));
    check(jext_file_write(letter, text, strlen(text), NULL));
    check(jext_file_sync(letter)); /* durable from here on */
    check(jext_file_close(letter));
    check(jext_symlink(volume, "letter", "/mail/newest"));
    check(jext_setxattr(volume, "/mail/letter", "user.colour", "red", 3, 0));
}

static void show(struct jext_volume *volume)
{
    const struct jext_dirent *entry;
    struct jext_stat stat = {0};
    struct jext_file *file;
    struct jext_dir *dir;
    char text[64];
    size_t count;

    check(jext_dir_open(volume, "/mail", &dir));
    while (check(jext_dir_read(dir, &entry)), entry != NULL)
        printf("%s\n", entry->name);
    check(jext_dir_close(dir));

    stat.struct_size = sizeof(stat);
    check(jext_stat(volume, "/mail/newest", &stat));
    printf("%" PRIu64 " bytes\n", stat.size);

    check(jext_file_open(volume, "/mail/newest", JEXT_READ, 0, &file));
    check(jext_file_read(file, text, sizeof(text), &count));
    printf("%.*s", (int)count, text);
    check(jext_file_close(file));

    if (jext_stat(volume, "/mail/second", &stat) == -ENOENT)
        printf("%s\n", jext_last_error());
}

int main(int argc, char **argv)
{
    struct jext_mkfs_options mkfs = {0};
    struct jext_volume *volume;

    if (argc != 2) {
        fprintf(stderr, "usage: image FILE\n");
        return 2;
    }
    mkfs.struct_size = sizeof(mkfs);
    mkfs.image_size = 64 << 20;
    mkfs.label = "post";
    check(jext_mkfs(argv[1], &mkfs));

    check(jext_volume_open(argv[1], NULL, &volume));
    fill(volume);
    show(volume);
    check(jext_volume_close(volume)); /* says if something could not be written */

    check(jext_check(argv[1], NULL, NULL, NULL));
    return 0;
}
