/* json.h — strings in JSON, of the library and of the command. What comes from outside, such as a path, need not be UTF-8; JSON must be. */
#ifndef GG_JSON_H
#define GG_JSON_H

#include <stdint.h>
#include <stdio.h>

/* The bytes of the UTF-8 character at *s; 0: there is none, but a byte of something else. */
static inline int gg_utf8(const unsigned char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* character of so many bytes */
    const int bytes = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
    uint32_t character = bytes > 1 ? *s & (0x7fu >> bytes) : *s;
    for (int i = 1; i < bytes; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        character = character << 6 | (s[i] & 0x3f);
    }
    return character < least[bytes] || character >> 11 == 27 /* a surrogate */ || character > 0x10ffff ? 0 : bytes;
}

/* Prints the text as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD. */
static inline void gg_json_string(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    fputc('"', out);
    for (int bytes; *s; s += bytes ? bytes : 1) {
        bytes = gg_utf8(s);
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < ' ' || !bytes)
            fprintf(out, "\\u%04x", bytes ? *s : 0xfffdu);
        else
            fwrite(s, 1, (size_t)bytes, out);
    }
    fputc('"', out);
}

#endif
