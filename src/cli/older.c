#include "cli/older.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ARGUMENTS = 256 };

/* Options that have another name today. */
static const struct {
    const char *then, *now;
} renamed[] = {{"--model_name", "--model"}, {"--model-name", "--model"}};

/* Value of --action at argv[*at], moving *at past it; NULL when argv[*at] is another argument. */
static char *action_at(int argc, char **argv, int *at)
{
    if (strncmp(argv[*at], "--action=", 9) == 0) return argv[*at] + 9;
    if (strcmp(argv[*at], "--action") != 0) return NULL;
    *at += 1;
    return *at < argc ? argv[*at] : NULL;
}

static char *in_todays_words(char *argument)
{
    static char joined[16][1024];
    static int used;
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        size_t length = strlen(renamed[i].then);
        if (strcmp(argument, renamed[i].then) == 0) return (char *)renamed[i].now;
        if (strncmp(argument, renamed[i].then, length) != 0 || argument[length] != '=' || used == 16) continue;
        snprintf(joined[used], sizeof joined[used], "%s%s", renamed[i].now, argument + length);
        return joined[used++];
    }
    return argument;
}

int lj_older_arguments(int argc, char **argv, char ***out)
{
    static char *arguments[MAX_ARGUMENTS];
    int count = 2;
    char *command = NULL;
    if (argc < 2 || strncmp(argv[1], "--", 2) != 0 || argc > MAX_ARGUMENTS) return 0;
    for (int i = 1; i < argc; i++) {
        int at = i;
        char *action = action_at(argc, argv, &at);
        if (action)
            command = action, i = at;
        else
            arguments[count++] = in_todays_words(argv[i]);
    }
    if (!command) return 0;
    arguments[0] = argv[0], arguments[1] = command;
    *out = arguments;
    return count;
}
