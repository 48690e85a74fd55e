/* Expressions, by precedence: ternary, or, and, not, comparison, + -, ~, * / %, sign, then what follows a value. */
#include "text/jinja_parts.h"

#include <stdlib.h>
#include <string.h>

static json_t *unary(jinja_state *s);

static const jinja_token *here(const jinja_state *s)
{
    return &s->tokens[s->at];
}

bool jinja_true(const json_t *value)
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_NULL:
    case JSON_FALSE: return false;
    case JSON_STRING: return json_string_length(value) > 0;
    case JSON_ARRAY: return json_array_size(value) > 0;
    case JSON_OBJECT: return json_object_size(value) > 0;
    case JSON_INTEGER: return json_integer_value(value) != 0;
    case JSON_REAL: return json_real_value(value) != 0;
    default: return true;
    }
}

json_t *jinja_string(const char *text, size_t bytes)
{
    return json_stringn_nocheck(text, bytes);
}

void jinja_write(const json_t *value, lj_text *out)
{
    if (!value) return;
    if (json_is_string(value)) {
        lj_text_add_bytes(out, json_string_value(value), json_string_length(value));
    } else if (json_is_boolean(value) || json_is_null(value)) {
        lj_text_add(out, "%s", json_is_true(value) ? "True" : json_is_null(value) ? "None" : "False");
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        lj_text_add(out, "%s", text ? text : "");
        free(text);
    }
}

static json_t *concat(const json_t *a, const json_t *b)
{
    lj_text text;
    lj_text_init(&text);
    jinja_write(a, &text);
    jinja_write(b, &text);
    json_t *value = jinja_string(text.data ? text.data : "", text.length);
    lj_text_release(&text);
    return value;
}

static json_t *list_read(jinja_state *s, const char *close)
{
    json_t *list = json_array();
    while (s->status == LJ_OK && !jinja_take(s, close)) {
        json_t *item = jinja_expression(s);
        json_array_append_new(list, item ? item : json_null());
        if (!jinja_take(s, ",") && !jinja_is(here(s), close)) jinja_need(s, close);
    }
    return list;
}

static json_t *object_read(jinja_state *s)
{
    json_t *object = json_object();
    while (s->status == LJ_OK && !jinja_take(s, "}")) {
        json_t *key = jinja_expression(s);
        jinja_need(s, ":");
        json_t *value = jinja_expression(s);
        if (json_is_string(key)) json_object_setn_new_nocheck(object, json_string_value(key), json_string_length(key), value ? value : json_null());
        else json_decref(value);
        json_decref(key);
        if (!jinja_take(s, ",") && !jinja_is(here(s), "}")) jinja_need(s, "}");
    }
    return object;
}

static json_t *number(const jinja_token *token)
{
    return memchr(token->text, '.', token->bytes) ? json_real(strtod(token->text, NULL)) : json_integer(strtoll(token->text, NULL, 10));
}

static void args_release(jinja_args *args)
{
    for (size_t i = 0; i < args->count; i++) json_decref(args->values[i]);
    json_decref(args->named);
}

/* Behind "(", to ")". */
static void args_read(jinja_state *s, jinja_args *args)
{
    *args = (jinja_args){.named = json_object()};
    while (s->status == LJ_OK && !jinja_take(s, ")")) {
        const jinja_token *name = here(s);
        if (name->kind == JINJA_NAME && jinja_is(name + 1, "=")) {
            s->at += 2;
            json_t *value = jinja_expression(s);
            json_object_setn_new_nocheck(args->named, name->text, name->bytes, value ? value : json_null());
        } else if (args->count < JINJA_MAX_ARGS) {
            args->values[args->count++] = jinja_expression(s);
        } else {
            jinja_fail(s, LJ_ERR_LIMIT, "more than 8 arguments");
        }
        if (!jinja_take(s, ",") && !jinja_is(here(s), ")")) jinja_need(s, ")");
    }
}

static void name_copy(const jinja_token *token, char out[48])
{
    size_t n = token->bytes < 47 ? token->bytes : 47;
    memcpy(out, token->text, n);
    out[n] = 0;
}

static json_t *name_value(jinja_state *s)
{
    static const struct {
        const char *name;
        int kind; /* 0 null, 1 true, 2 false */
    } constants[] = {{"none", 0}, {"None", 0}, {"true", 1}, {"True", 1}, {"false", 2}, {"False", 2}};
    const jinja_token *token = &s->tokens[s->at++];
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (jinja_is(token, constants[i].name)) return constants[i].kind == 0 ? json_null() : json_boolean(constants[i].kind == 1);
    if (!jinja_take(s, "(")) {
        json_t *value = jinja_lookup(s, token->text, token->bytes);
        return value ? json_incref(value) : NULL;
    }
    char name[48];
    jinja_args args;
    name_copy(token, name);
    args_read(s, &args);
    json_t *value = s->status == LJ_OK ? jinja_function(s, name, &args) : NULL;
    args_release(&args);
    return value;
}

static json_t *primary(jinja_state *s)
{
    const jinja_token *token = here(s);
    if (token->kind == JINJA_STRING) return s->at++, jinja_string(token->text, token->bytes);
    if (token->kind == JINJA_NUMBER) return s->at++, number(token);
    if (token->kind == JINJA_NAME) return name_value(s);
    if (jinja_take(s, "[")) return list_read(s, "]");
    if (jinja_take(s, "{")) return object_read(s);
    if (jinja_take(s, "(")) {
        json_t *value = jinja_expression(s);
        if (jinja_is(here(s), ",")) { /* a tuple */
            s->at++;
            json_t *rest = list_read(s, ")"), *list = json_array();
            json_array_append_new(list, value ? value : json_null());
            json_array_extend(list, rest);
            json_decref(rest);
            return list;
        }
        jinja_need(s, ")");
        return value;
    }
    jinja_fail(s, LJ_ERR_FORMAT, "no value");
    return NULL;
}

static json_t *item_of(const json_t *value, const json_t *key)
{
    if (json_is_object(value) && json_is_string(key))
        return json_incref(json_object_getn(value, json_string_value(key), json_string_length(key)));
    if (!json_is_integer(key)) return NULL;
    json_int_t index = json_integer_value(key), count = (json_int_t)json_array_size(value);
    if (json_is_array(value)) return json_incref(json_array_get(value, (size_t)(index < 0 ? index + count : index)));
    if (!json_is_string(value)) return NULL;
    count = (json_int_t)json_string_length(value);
    if (index < 0) index += count;
    return index >= 0 && index < count ? jinja_string(json_string_value(value) + index, 1) : NULL;
}

/* value[from:to:step] of a list or a string; what is not said goes to the end. */
static json_t *slice(const json_t *value, const json_t *from, const json_t *to, json_int_t step)
{
    json_int_t count = (json_int_t)(json_is_array(value) ? json_array_size(value) : json_string_length(value));
    json_int_t a = json_is_integer(from) ? json_integer_value(from) : step > 0 ? 0 : count - 1;
    json_int_t b = json_is_integer(to) ? json_integer_value(to) : step > 0 ? count : -1;
    if (json_is_integer(from) && a < 0) a += count;
    if (json_is_integer(to) && b < 0) b += count;
    json_t *list = json_array();
    lj_text text;
    lj_text_init(&text);
    for (json_int_t i = a; step > 0 ? i < b : i > b; i += step) {
        if (i < 0 || i >= count) {
            if ((step > 0) == (i < 0)) continue;
            break;
        }
        if (json_is_array(value))
            json_array_append(list, json_array_get(value, (size_t)i));
        else
            lj_text_add_bytes(&text, json_string_value(value) + i, 1);
    }
    json_t *made = json_is_array(value) ? json_incref(list) : jinja_string(text.data ? text.data : "", text.length);
    lj_text_release(&text);
    json_decref(list);
    return made;
}

static json_t *subscript(jinja_state *s, json_t *value)
{
    json_t *parts[3] = {0}, *result = NULL;
    int count = 0;
    bool sliced = false;
    for (; s->status == LJ_OK && count < 3; count++) {
        if (!jinja_is(here(s), ":") && !jinja_is(here(s), "]")) parts[count] = jinja_expression(s);
        if (!jinja_take(s, ":")) break;
        sliced = true;
    }
    jinja_need(s, "]");
    json_int_t step = json_is_integer(parts[2]) ? json_integer_value(parts[2]) : 1;
    if (sliced && step == 0) jinja_fail(s, LJ_ERR_FORMAT, "a slice of step 0");
    if (s->status == LJ_OK && value && sliced && (json_is_array(value) || json_is_string(value))) result = slice(value, parts[0], parts[1], step);
    if (s->status == LJ_OK && value && !sliced) result = item_of(value, parts[0]);
    for (int i = 0; i < 3; i++) json_decref(parts[i]);
    json_decref(value);
    return result;
}

static json_t *attribute(jinja_state *s, json_t *value)
{
    char name[48];
    jinja_args args;
    if (here(s)->kind != JINJA_NAME) jinja_fail(s, LJ_ERR_FORMAT, "no name behind the dot");
    name_copy(here(s), name);
    if (s->status == LJ_OK) s->at++;
    if (!jinja_take(s, "(")) {
        json_t *found = json_is_object(value) ? json_incref(json_object_get(value, name)) : NULL;
        json_decref(value);
        return found;
    }
    args_read(s, &args);
    json_t *result = s->status == LJ_OK ? jinja_method(s, name, value, &args) : NULL;
    args_release(&args);
    json_decref(value);
    return result;
}

static json_t *filtered(jinja_state *s, json_t *value)
{
    char name[48];
    jinja_args args = {0};
    name_copy(here(s), name);
    s->at++;
    if (jinja_take(s, "(")) args_read(s, &args);
    json_t *result = s->status == LJ_OK ? jinja_filter(s, name, value, &args) : NULL;
    args_release(&args);
    json_decref(value);
    return result;
}

static json_t *tested(jinja_state *s, json_t *value)
{
    char name[48];
    jinja_args args = {0};
    bool negated = jinja_take(s, "not");
    name_copy(here(s), name);
    s->at++;
    if (jinja_take(s, "("))
        args_read(s, &args);
    else if (here(s)->kind == JINJA_STRING || here(s)->kind == JINJA_NUMBER)
        args.values[args.count++] = primary(s);
    bool truth = s->status == LJ_OK && jinja_test(s, name, value, &args);
    args_release(&args);
    json_decref(value);
    return json_boolean(truth != negated);
}

static json_t *postfix(jinja_state *s)
{
    json_t *value = primary(s);
    while (s->status == LJ_OK) {
        if (jinja_take(s, "."))
            value = attribute(s, value);
        else if (jinja_take(s, "["))
            value = subscript(s, value);
        else if (jinja_take(s, "|"))
            value = filtered(s, value);
        else if (jinja_take(s, "is"))
            value = tested(s, value);
        else
            break;
    }
    return value;
}

static json_t *unary(jinja_state *s)
{
    bool minus = jinja_take(s, "-");
    json_t *value = postfix(s);
    if (!minus) return value;
    json_t *negative = json_is_integer(value) ? json_integer(-json_integer_value(value)) : json_real(-json_number_value(value));
    json_decref(value);
    return negative;
}

static json_t *arithmetic(jinja_state *s, const jinja_token *op, json_t *a, json_t *b)
{
    char sign = *op->text;
    json_t *result = NULL;
    if (sign == '~' || (sign == '+' && (json_is_string(a) || json_is_string(b)))) {
        result = concat(a, b);
    } else if (sign == '+' && json_is_array(a) && json_is_array(b)) {
        result = json_copy(a);
        json_array_extend(result, b);
    } else if (json_is_integer(a) && json_is_integer(b) && (sign != '/' || op->bytes == 2)) {
        json_int_t x = json_integer_value(a), y = json_integer_value(b), r = 0;
        bool bad = (sign == '/' || sign == '%') && (y == 0 || y == -1);
        if (!bad && (sign == '/' || sign == '%')) {
            json_int_t q = x / y - (x % y != 0 && (x < 0) != (y < 0));
            r = sign == '/' ? q : x - q * y;
        }
        bad |= (sign == '+' && __builtin_add_overflow(x, y, &r)) || (sign == '-' && __builtin_sub_overflow(x, y, &r)) ||
               (sign == '*' && __builtin_mul_overflow(x, y, &r));
        if (bad) jinja_fail(s, LJ_ERR_FORMAT, "arithmetic without result");
        result = json_integer(r);
    } else {
        jinja_fail(s, LJ_ERR_UNSUPPORTED, "an operator between these values");
    }
    json_decref(a);
    json_decref(b);
    return result;
}

/* Left to right over the operators of one level. */
static json_t *level(jinja_state *s, const char *const *ops, json_t *(*next)(jinja_state *))
{
    json_t *value = next(s);
    while (s->status == LJ_OK) {
        size_t i = 0;
        while (ops[i] && !jinja_is(here(s), ops[i])) i++;
        if (!ops[i]) break;
        const jinja_token *op = &s->tokens[s->at++];
        value = arithmetic(s, op, value, next(s));
    }
    return value;
}

static json_t *product(jinja_state *s)
{
    static const char *const ops[] = {"*", "/", "//", "%", NULL};
    return level(s, ops, unary);
}

static json_t *tilde(jinja_state *s)
{
    static const char *const ops[] = {"~", NULL};
    return level(s, ops, product);
}

static json_t *sum(jinja_state *s)
{
    static const char *const ops[] = {"+", "-", NULL};
    return level(s, ops, tilde);
}

static bool contains(const json_t *whole, const json_t *part)
{
    size_t index;
    json_t *item;
    if (json_is_string(whole) && json_is_string(part))
        return strstr(json_string_value(whole), json_string_value(part)) != NULL;
    if (json_is_object(whole) && json_is_string(part)) return json_object_get(whole, json_string_value(part)) != NULL;
    json_array_foreach((json_t *)whole, index, item) if (json_equal(item, part)) return true;
    return false;
}

static bool compared(const char *op, const json_t *a, const json_t *b)
{
    bool equal = (!a && !b) || (a && b && json_equal((json_t *)a, (json_t *)b));
    if (strcmp(op, "==") == 0) return equal;
    if (strcmp(op, "!=") == 0) return !equal;
    if (strcmp(op, "in") == 0) return contains(b, a);
    double x = json_number_value(a), y = json_number_value(b);
    if (json_is_string(a) && json_is_string(b)) x = strcmp(json_string_value(a), json_string_value(b)), y = 0;
    return op[0] == '<' ? x < y || (op[1] && x == y) : x > y || (op[1] && x == y);
}

static json_t *comparison(jinja_state *s)
{
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">", "in"};
    json_t *value = sum(s);
    while (s->status == LJ_OK) {
        bool negated = jinja_is(here(s), "not") && jinja_is(here(s) + 1, "in");
        if (negated) s->at++;
        size_t i = 0;
        while (i < sizeof ops / sizeof *ops && !jinja_take(s, ops[i])) i++;
        if (i == sizeof ops / sizeof *ops) break;
        json_t *other = sum(s);
        bool truth = compared(ops[i], value, other);
        json_decref(value);
        json_decref(other);
        value = json_boolean(truth != negated);
    }
    return value;
}

static json_t *negation(jinja_state *s)
{
    bool negated = false, any = false;
    while (jinja_take(s, "not")) negated = !negated, any = true;
    json_t *value = comparison(s);
    if (!any) return value;
    bool truth = jinja_true(value);
    json_decref(value);
    return json_boolean(truth != negated);
}

/* Both sides are worked out; which one counts is Python's rule. */
static json_t *both(jinja_state *s, const char *word, bool keep_left_when, json_t *(*next)(jinja_state *))
{
    json_t *value = next(s);
    while (jinja_take(s, word)) {
        json_t *other = next(s);
        bool left = jinja_true(value) == keep_left_when;
        json_decref(left ? other : value);
        value = left ? value : other;
    }
    return value;
}

static json_t *conjunction(jinja_state *s)
{
    return both(s, "and", false, negation);
}

json_t *jinja_expression(jinja_state *s)
{
    if (s->status != LJ_OK) return NULL;
    if (++s->depth > JINJA_MAX_DEPTH) jinja_fail(s, LJ_ERR_LIMIT, "expressions deeper than 64 levels");
    json_t *value = both(s, "or", true, conjunction);
    if (jinja_take(s, "if")) {
        json_t *condition = both(s, "or", true, conjunction), *other = jinja_take(s, "else") ? jinja_expression(s) : NULL;
        bool truth = jinja_true(condition);
        json_decref(condition);
        json_decref(truth ? other : value);
        value = truth ? value : other;
    }
    s->depth--;
    return value;
}
