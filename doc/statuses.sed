# For Doxygen, which cannot document what a macro expands to: writes the list of statuses out as an enum.
/^#define XSM_STATUS_LIST(X)/s/ *\\$//
s|^    X(\(XSM_OK\), \([0-9]*\), "\(.*\)").*|/** Values of an #xsm_status. */ enum { \1 = \2, /**< \2: \3. */|
s|^    X(\(XSM_[A-Z_]*\), \([0-9]*\), "\(.*\)") *\\$|    \1 = \2, /**< \2: \3. */|
s|^    X(\(XSM_[A-Z_]*\), \([0-9]*\), "\(.*\)")$|    \1 = \2 /**< \2: \3. */ };|
/^enum {$/,/^};$/s/.*//
